package subscriber

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"slices"
	"time"

	"weft/internal/ppp"
	"weft/internal/subscriber/history"
)

// SessionDetails is all that is known of one session.
type SessionDetails struct {
	SessionRow
	TunnelRow  TunnelRow        `json:"l2tp_tunnel"`
	Negotiated Negotiated       `json:"negotiated"`
	Limits     Limits           `json:"limits"`
	Timers     []Deadline       `json:"timers"` // the next one first
	Line       *LineErrors      `json:"line_errors,omitempty"`
	Captured   bool             `json:"captured"` // its packets are captured
	Messages   []ControlMessage `json:"messages"` // the last ones, the oldest first
}

// Negotiated is what the two ends of the PPP link agreed on.
type Negotiated struct {
	MRU         int          `json:"mru"`      // what we take
	PeerMRU     int          `json:"peer_mru"` // what the subscriber takes
	Magic       string       `json:"magic,omitempty"`
	PeerMagic   string       `json:"peer_magic,omitempty"`
	ACFC        bool         `json:"acfc"` // the subscriber takes compressed headers
	PFC         bool         `json:"pfc"`
	Sequenced   bool         `json:"sequenced"` // data messages carry numbers
	Gateway     netip.Addr   `json:"gateway,omitzero"`
	DNS         []netip.Addr `json:"dns"`
	InterfaceID string       `json:"interface_id,omitempty"`
}

// Limits are those of a session besides its rates.
type Limits struct {
	SessionTimeout time.Duration `json:"session_timeout_ns"`
	IdleTimeout    time.Duration `json:"idle_timeout_ns"`
	Interim        time.Duration `json:"interim_ns"`
}

// Deadline is something that happens at a time.
type Deadline struct {
	What string    `json:"what"`
	At   time.Time `json:"at"`
}

// ControlMessage is one of the last control messages.
type ControlMessage = history.Message

// Ended is a session that is over, or a login that was refused.
type Ended struct {
	LNS      string           `json:"lns"`
	Client   string           `json:"client,omitempty"` // the NAME of an [l2tp_client.NAME] instead
	Login    string           `json:"login"`
	Session  uint16           `json:"session"`
	ID       string           `json:"id"`
	Since    time.Time        `json:"since"`
	At       time.Time        `json:"at"`
	Reason   Reason           `json:"reason"`
	Text     string           `json:"text"`
	Call     Call             `json:"call"`
	Messages []ControlMessage `json:"messages"`

	history history.Log
	ipv4    netip.Addr
	device  string // of a client
}

// LineErrors are what a LAC counted on the line (RFC 2661 section 4.4.6).
type LineErrors struct {
	CRC         uint32 `json:"crc"`
	Framing     uint32 `json:"framing"`
	Hardware    uint32 `json:"hardware_overruns"`
	Buffer      uint32 `json:"buffer_overruns"`
	Timeouts    uint32 `json:"timeouts"`
	Alignment   uint32 `json:"alignment"`
	LastReports int    `json:"reports"`
}

// lineErrors takes a WAN-Error-Notify: the counts are those since the call began.
func (s *session) lineErrors(b []byte) {
	if len(b) != 26 {
		return
	}
	n := 1
	if s.line != nil {
		n += s.line.LastReports
	}
	at := func(i int) uint32 { return binary.BigEndian.Uint32(b[2+4*i:]) }
	s.line = &LineErrors{at(0), at(1), at(2), at(3), at(4), at(5), n}
}

// endedMost is how many sessions that are over are remembered.
const endedMost = 128

// remember notes that a session is over.
func (e *Engine) remember(s *session, why Reason, text string) {
	x := &Ended{
		Login: s.login, Session: s.local, ID: s.id, Since: s.since, At: e.clock.Now(), Reason: why, Text: text, Call: s.call,
		history: s.history, ipv4: s.given.IPv4,
	}
	switch t := s.tunnel; {
	case t.server != nil:
		x.LNS = t.server.Name
	case t.client != nil:
		x.Client, x.Login, x.ipv4, x.device = t.client.Name, t.client.Login, t.client.learned.IPv4, t.client.Device
	default:
		return // the subscriber's own side tells
	}
	if len(e.ended) < endedMost {
		e.ended = append(e.ended, x)
		return
	}
	e.ended[e.endedAt] = x
	e.endedAt = (e.endedAt + 1) % endedMost
}

// Details tells all of the sessions that fit, and which ones that would have
// fitted are over, the last one first.
func (e *Engine) Details(m Match) (list []SessionDetails, ended []Ended) {
	list, ended = []SessionDetails{}, []Ended{}
	if m.Empty() {
		return list, ended
	}
	for _, s := range e.find(m) {
		list = append(list, s.details())
	}
	for i := range e.ended {
		x := *e.ended[(e.endedAt+len(e.ended)-1-i)%len(e.ended)]
		if x.Client != "" && !m.Clients || m.ID != "" && m.ID != x.ID || m.Login != "" && !x.named(m.Login) || m.Session != 0 && m.Session != x.Session ||
			m.Address.IsValid() && m.Address != x.ipv4 {
			continue
		}
		x.Messages = x.history.Messages()
		ended = append(ended, x)
	}
	return list, ended
}

func (x *Ended) named(who string) bool {
	if x.Client != "" {
		return who == x.Client || who == "l2tp_client."+x.Client || who == x.device
	}
	return who == x.Login
}

func (s *session) details() SessionDetails {
	l, srv := s.link, s.tunnel.server
	lcp := l.Negotiated()
	own, peer := l.InterfaceIDs()
	d := SessionDetails{
		SessionRow: s.row(), TunnelRow: s.tunnel.row(), Line: s.line, Captured: s.watch != nil, Messages: s.history.Messages(),
		Negotiated: Negotiated{
			MRU: lcp.MRU, PeerMRU: lcp.PeerMRU, Magic: magicText(lcp.Magic), PeerMagic: magicText(lcp.PeerMagic),
			ACFC: lcp.ACFC, PFC: lcp.PFC, Sequenced: s.l2tp.Sequenced(), DNS: []netip.Addr{},
		},
		Limits: Limits{s.profile.SessionTimeout, s.profile.IdleTimeout, s.profile.Interim},
	}
	n := &d.Negotiated
	if c := s.tunnel.client; c != nil {
		n.Gateway, n.DNS = c.learned.Gateway, append(n.DNS, c.learned.DNS...)
		if l.IPV6CP() == ppp.StateOpened {
			n.InterfaceID = hex.EncodeToString(own[:])
		}
		d.Timers = s.timers()
		return d
	}
	if l.IPCP() == ppp.StateOpened {
		n.Gateway = srv.Gateway
		n.DNS = append(n.DNS, dnsOf(s.profile, srv, true)...)
	}
	if l.IPV6CP() == ppp.StateOpened {
		n.InterfaceID = hex.EncodeToString(peer[:])
		n.DNS = append(n.DNS, dnsOf(s.profile, srv, false)...)
	}
	d.Timers = s.timers()
	return d
}

func magicText(n uint32) string {
	if n == 0 {
		return ""
	}
	return hex.EncodeToString(binary.BigEndian.AppendUint32(nil, n))
}

// timers are what the session waits for, the next first.
func (s *session) timers() []Deadline {
	list := []Deadline{
		{"session timeout", s.endsAt}, {"interim accounting", s.interim}, {"router advertisement", s.advertAt}, {"DHCPv6 or router discovery", s.v6Due()},
	}
	for _, t := range s.link.Timers() {
		list = append(list, Deadline(t))
	}
	if s.profile.IdleTimeout > 0 && !s.seenAt.IsZero() {
		list = append(list, Deadline{"idle timeout", s.seenAt.Add(s.profile.IdleTimeout)})
	}
	list = slices.DeleteFunc(list, func(d Deadline) bool { return d.At.IsZero() })
	slices.SortStableFunc(list, func(a, b Deadline) int { return cmp.Compare(a.At.UnixNano(), b.At.UnixNano()) })
	return list
}

// v6Due is when a client's router discovery or DHCPv6 has something to do.
func (s *session) v6Due() time.Time {
	if s.v6 == nil {
		return time.Time{}
	}
	return s.v6.Due()
}

// TunnelDetails is a tunnel with its last messages.
type TunnelDetails struct {
	TunnelRow
	Window     int              `json:"peer_window"`
	Congestion int              `json:"congestion_window"`
	Tries      int              `json:"retransmissions"` // of the message that waits
	Hidden     bool             `json:"hidden"`
	Secret     bool             `json:"authenticated"`
	NextHello  time.Time        `json:"next_hello,omitzero"`
	Messages   []ControlMessage `json:"messages"`
}

// TunnelDetails tells all of a tunnel, by its local number or its peer's name
// or address.
func (e *Engine) TunnelDetails(who string) []TunnelDetails {
	list := []TunnelDetails{}
	for _, t := range e.tunnels() {
		r := t.row()
		if !r.named(who) {
			continue
		}
		c := t.Status()
		list = append(list, TunnelDetails{
			TunnelRow: r, Window: c.Window, Congestion: c.Congestion, Tries: c.Tries, Hidden: c.Hidden, Secret: c.Authenticated,
			NextHello: c.NextHello, Messages: t.history.Messages(),
		})
	}
	return list
}
