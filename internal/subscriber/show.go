package subscriber

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"weft/internal/l2tp"
	"weft/internal/ppp"
)

// SessionRow is a session as weft show tells of it.
type SessionRow struct {
	LNS          string         `json:"lns"`
	Client       string         `json:"client,omitempty"` // the NAME of an [l2tp_client.NAME] instead
	Login        string         `json:"login"`
	Session      uint16         `json:"session"`
	Tunnel       uint16         `json:"tunnel"`
	PeerID       uint16         `json:"peer_session"`
	ID           string         `json:"id"` // in accounting
	State        string         `json:"state"`
	SwitchedTo   string         `json:"switched_to,omitempty"` // the server that it goes on to
	Since        time.Time      `json:"since"`
	IPv4         netip.Addr     `json:"ipv4,omitzero"`
	IPv6         netip.Addr     `json:"ipv6,omitzero"`
	Prefix       netip.Prefix   `json:"prefix,omitzero"`
	Delegated    netip.Prefix   `json:"delegated,omitzero"`
	Routes       []netip.Prefix `json:"routes"`
	Up           uint64         `json:"rate_up"`
	Down         uint64         `json:"rate_down"`
	WalledGarden bool           `json:"walled_garden"`
	MTU          int            `json:"mtu"`
	Method       ppp.Method     `json:"authentication"`
	LCP          string         `json:"lcp"`
	IPCP         string         `json:"ipcp"`
	IPV6CP       string         `json:"ipv6cp"`
	LinkLocal    netip.Addr     `json:"link_local,omitzero"`
	Call         Call           `json:"call"`
	Slow         Traffic        `json:"slow_path"`
	SlowDrops    [2]uint64      `json:"-"` // in the slow path, for their rate: up, down
}

// TunnelRow is a tunnel.
type TunnelRow struct {
	Section   string         `json:"section"`
	Local     uint16         `json:"tunnel"`
	Remote    uint16         `json:"peer_tunnel"`
	State     string         `json:"state"`
	LocalAddr netip.AddrPort `json:"local"`
	Peer      netip.AddrPort `json:"peer"`
	Host      string         `json:"host"`
	Vendor    string         `json:"vendor"`
	LAC       string         `json:"lac"`
	Sessions  int            `json:"sessions"`
	Ns        uint16         `json:"ns"`
	Nr        uint16         `json:"nr"`
	Waiting   int            `json:"waiting"` // messages not acknowledged
	Since     time.Time      `json:"since"`
	Received  time.Time      `json:"last_received,omitzero"`
}

// ClientRow is an [l2tp_client.NAME].
type ClientRow struct {
	Name    string    `json:"name"`
	Server  string    `json:"server"`
	State   string    `json:"state"`
	Fault   string    `json:"fault,omitempty"`
	Tries   uint64    `json:"tries"`
	RetryAt time.Time `json:"retry_at,omitzero"`
	Learned
}

// Subscribers returns the sessions of all [lns.NAME].
func (e *Engine) Subscribers() []SessionRow { return e.Rows(e.Order()) }

// Order returns the numbers of the sessions of all [lns.NAME], in the order in which
// they are shown.
func (e *Engine) Order() []uint16 {
	list := make([]*session, 0, len(e.sessions))
	for _, s := range e.sessions {
		if s.tunnel.server != nil {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b *session) int {
		return cmp.Or(cmp.Compare(a.tunnel.server.Name, b.tunnel.server.Name), cmp.Compare(a.login, b.login), cmp.Compare(a.local, b.local))
	})
	order := make([]uint16, len(list))
	for i, s := range list {
		order[i] = s.local
	}
	return order
}

// Rows returns those of them that are still there.
func (e *Engine) Rows(order []uint16) []SessionRow {
	list := make([]SessionRow, 0, len(order))
	for _, id := range order {
		if s := e.sessions[id]; s != nil && s.tunnel.server != nil {
			list = append(list, s.row())
		}
	}
	return list
}

func (s *session) row() SessionRow {
	r := SessionRow{
		Login: s.login, Session: s.local, Tunnel: s.tunnel.Local(), PeerID: s.l2tp.Remote(), ID: s.id,
		State: "connecting", Since: s.since, Call: s.call, Slow: s.slow, SlowDrops: [2]uint64{s.rateUp.Dropped, s.rateDown.Dropped}, IPv4: s.given.IPv4, IPv6: s.profile.IPv6, Prefix: s.given.Prefix,
		Delegated: s.given.Delegated, Routes: append([]netip.Prefix{}, s.profile.Routes...), Up: s.profile.Up, Down: s.profile.Down, WalledGarden: s.profile.WalledGarden,
	}
	if c := s.tunnel.client; c != nil {
		g := c.learned
		r.Client, r.Login, r.IPv4, r.Delegated = c.Name, c.Login, g.IPv4, g.Delegated
		for _, a := range g.Addresses {
			r.IPv6 = a.Addr()
		}
	} else {
		r.LNS = s.tunnel.server.Name
	}
	l := s.link
	if l == nil {
		return r
	}
	r.MTU, r.Method, r.LCP, r.IPCP, r.IPV6CP = s.mtu(), l.Method(), l.LCP().String(), l.IPCP().String(), l.IPV6CP().String()
	if l.IPV6CP() == ppp.StateOpened {
		r.LinkLocal = s.peerLinkLocal()
	}
	switch {
	case s.forwarded():
		r.State, r.SwitchedTo = "switched", s.target.Server
	case s.running():
		r.State = "up"
	case s.question != 0:
		r.State = "authenticating"
	}
	return r
}

// Tunnels returns the tunnels.
func (e *Engine) Tunnels() []TunnelRow {
	list := []TunnelRow{}
	for _, t := range e.tunnels() {
		list = append(list, t.row())
	}
	return list
}

func (t *tunnel) row() TunnelRow {
	section := ""
	switch {
	case t.server != nil:
		section = "lns." + t.server.Name
	case t.client != nil:
		section = "l2tp_client." + t.client.Name
	default:
		section = "switched to " + t.toServer.Server
	}
	l := t.Status()
	return TunnelRow{
		Section: section, Local: l.Local, Remote: l.Remote, State: l.State.String(), LocalAddr: l.LocalAddr, Peer: l.Peer, Host: l.Host,
		Vendor: l.Vendor, LAC: t.lac, Sessions: l.Sessions, Ns: l.Ns, Nr: l.Nr, Waiting: l.Waiting, Since: l.Since, Received: l.Received,
	}
}

// named reports whether a tunnel is meant: by its number, its section, or what
// its peer is called or where it is.
func (r TunnelRow) named(who string) bool {
	return who != "" && (who == strconv.Itoa(int(r.Local)) || who == r.Host || who == r.LAC || who == r.Section ||
		who == r.Peer.String() || who == r.Peer.Addr().String())
}

// Clients returns the clients.
func (e *Engine) Clients() []ClientRow {
	list := []ClientRow{}
	for _, c := range e.clients {
		r := ClientRow{Name: c.Name, Server: c.Server, State: "waiting", Fault: c.fault, Tries: c.tries, Learned: c.learned}
		switch {
		case c.learned.Up:
			r.State = "up"
		case c.dialing || c.tunnel != nil:
			r.State = "connecting"
			if t := c.tunnel; t != nil && t.Unanswered() {
				r.Fault = l2tp.NoAnswer
			}
		default:
			r.RetryAt = c.retryAt
		}
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b ClientRow) int { return cmp.Compare(a.Name, b.Name) })
	return list
}
