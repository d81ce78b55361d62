package access

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"weft/internal/dhcp6client"
	"weft/internal/ppp"
)

// What is kept of tunnels and sessions so that the next process takes over
// where this one stopped, and peers notice nothing.

// Stored is one change of the store: Value is nil for what is gone.
type Stored struct {
	Key   string
	Value []byte
}

type storeChanges struct {
	tunnels, sessions map[uint16]bool // false: gone
}

type storedTunnel struct {
	Local  uint16         `json:"local"`
	Remote uint16         `json:"remote"`
	Server string         `json:"server,omitempty"`
	Client string         `json:"client,omitempty"`
	Here   netip.AddrPort `json:"here"`
	Peer   netip.AddrPort `json:"peer"`
	Ns     uint16         `json:"ns"`
	Nr     uint16         `json:"nr"`
	Window int            `json:"window"`
	Host   string         `json:"host"`
	Vendor string         `json:"vendor"`
	LAC    string         `json:"lac"`
	Hide   bool           `json:"hide,omitempty"`
	Secret []byte         `json:"secret,omitempty"`
	First  []byte         `json:"first,omitempty"`
	Onward *Onward        `json:"onward,omitempty"` // the server that it leads to
	Calls  uint32         `json:"calls,omitempty"`
	Since  time.Time      `json:"since"`
}

type storedSession struct {
	Local    uint16                `json:"local"`
	Remote   uint16                `json:"remote"`
	Tunnel   uint16                `json:"tunnel"`
	Call     Call                  `json:"call"`
	Sequence bool                  `json:"sequence,omitempty"`
	Required bool                  `json:"required,omitempty"`
	Heard    bool                  `json:"heard,omitempty"`
	ACCM     uint32                `json:"accm,omitempty"`
	ID       string                `json:"id"`
	Login    string                `json:"login"`
	Profile  Profile               `json:"profile"`
	IPv4     netip.Addr            `json:"ipv4,omitzero"`
	Prefix   netip.Prefix          `json:"prefix,omitzero"`
	Deleg    netip.Prefix          `json:"delegated,omitzero"`
	Online   bool                  `json:"online"`
	Since    time.Time             `json:"since"`
	Ends     time.Time             `json:"ends,omitzero"`
	Slow     Traffic               `json:"slow"`
	Link     ppp.Snapshot          `json:"link"`
	Onward   *Onward               `json:"onward,omitempty"` // where it goes on to
	Pair     uint16                `json:"pair,omitempty"`   // and by which session
	V6       *dhcp6client.Snapshot `json:"v6,omitempty"`     // of a client
}

func tunnelKey(id uint16) string  { return "tunnel/" + strconv.Itoa(int(id)) }
func sessionKey(id uint16) string { return "session/" + strconv.Itoa(int(id)) }

// toStore gives the changes, tunnels first.
func (e *Engine) toStore(c storeChanges) []Stored {
	list := make([]Stored, 0, len(c.tunnels)+len(c.sessions))
	put := func(key string, v any) {
		if b, err := json.Marshal(v); err == nil {
			list = append(list, Stored{key, b})
		}
	}
	for id, there := range c.tunnels {
		if t := e.tunnels[id]; there && t != nil && t.state == tunnelUp {
			put(tunnelKey(id), t.stored())
		} else if !there {
			list = append(list, Stored{Key: tunnelKey(id)})
		}
	}
	for id, there := range c.sessions {
		s := e.sessions[id]
		switch {
		case there && s != nil && s.state == sessionUp && s.carried():
			put(sessionKey(id), s.stored())
		case !there:
			list = append(list, Stored{Key: sessionKey(id)})
		}
	}
	return list
}

// running tells whether a session carries something.
func (s *session) running() bool {
	return s.link != nil && (s.link.IPCP() == ppp.StateOpened || s.link.IPV6CP() == ppp.StateOpened)
}

func (t *tunnel) stored() storedTunnel {
	o := storedTunnel{
		Local: t.local, Remote: t.channel.peer, Here: t.here, Peer: t.peer, Ns: t.channel.ns, Nr: t.channel.nr, Window: t.channel.window,
		Host: t.host, Vendor: t.vendor, LAC: t.lac, Hide: t.hide, Secret: t.secret, First: t.first[:], Since: t.since,
	}
	switch {
	case t.server != nil:
		o.Server = t.server.Name
	case t.client != nil:
		o.Client = t.client.Name
	default:
		o.Onward, o.Calls = &t.onward.Onward, t.onward.calls
	}
	return o
}

func (s *session) stored() storedSession {
	l := s.link
	o := storedSession{
		Local: s.local, Remote: s.remote, Tunnel: s.tunnel.local, Call: s.call, Sequence: s.sequence, Required: s.required, Heard: s.heard, ACCM: s.accm, ID: s.id, Login: s.login,
		Profile: s.profile, IPv4: s.given.ipv4, Prefix: s.given.prefix, Deleg: s.given.delegated, Online: s.online, Since: s.since,
		Ends: s.endsAt, Slow: s.slow,
	}
	if s.pair != nil {
		o.Pair = s.pair.local
	}
	if l == nil {
		return o // the side of the other server has none
	}
	if s.pair != nil {
		o.Onward = &s.onward
	}
	o.Link = l.Snapshot()
	if s.v6 != nil {
		o.V6 = s.v6.Snapshot()
	}
	return o
}

// Restore takes over what another process has kept, after Set. Tunnels whose
// section is no more are forgotten: their peers' Hellos are not answered any more
// (RFC 2661 section 5.5). Each server's peer is asked soon whether it is still there.
func (e *Engine) Restore(kept []Stored, now time.Time) error {
	e.clock.Set(now)
	var sessions []storedSession
	for _, k := range kept {
		var s storedSession
		var t storedTunnel
		var err error
		if len(k.Key) > 7 && k.Key[:7] == "tunnel/" {
			if err = json.Unmarshal(k.Value, &t); err == nil {
				e.restoreTunnel(t)
			}
		} else if err = json.Unmarshal(k.Value, &s); err == nil {
			sessions = append(sessions, s)
		}
		if err != nil {
			return fmt.Errorf("read what was kept of %s: %w", k.Key, err)
		}
	}
	slices.SortFunc(sessions, func(a, b storedSession) int { return int(a.Local) - int(b.Local) })
	for _, s := range sessions {
		e.restoreSession(s)
	}
	e.restorePairs(sessions)
	for _, t := range e.sortedTunnels() {
		// a client's tunnel without its session is of no use: begin anew
		if t.client != nil && t.client.session == nil {
			t.fail("the session was not kept")
		}
	}
	return nil
}

func (e *Engine) restoreTunnel(k storedTunnel) {
	t := &tunnel{
		engine: e, local: k.Local, here: k.Here, peer: k.Peer, state: tunnelUp, channel: newChannel(k.Remote), secret: k.Secret,
		hide: k.Hide, host: k.Host, vendor: k.Vendor, lac: k.LAC, sessions: map[uint16]*session{}, since: k.Since, heard: e.clock.Now(),
	}
	copy(t.first[:], k.First)
	t.server, t.client = e.servers[k.Server], e.clients[k.Client]
	if k.Onward != nil {
		e.restoreOnward(t, *k.Onward, k.Calls)
	}
	if t.server == nil && t.client == nil && t.onward == nil || e.tunnels[k.Local] != nil {
		e.pending.stored.tunnels[k.Local] = false
		e.pending.goneTunnels = append(e.pending.goneTunnels, k.Local)
		return
	}
	t.channel.ns, t.channel.nr, t.channel.restored = k.Ns, k.Nr, true
	t.channel.setWindow(uint16(k.Window))
	e.tunnels[k.Local] = t
	switch {
	case t.client != nil:
		t.client.tunnel = t
		e.clock.Disarm(t.client)
	case t.server != nil:
		e.byPeer[peerKey{k.Peer, k.Remote}] = t
	}
	t.helloAt = e.clock.Now().Add(time.Second)
	t.heard = time.Time{}
	e.pending.tunnels[k.Local] = true
	e.clock.Arm(t)
}

func (e *Engine) restoreSession(k storedSession) {
	t := e.tunnels[k.Tunnel]
	if t == nil || e.sessions[k.Local] != nil {
		e.pending.stored.sessions[k.Local] = false
		e.pending.goneSs = append(e.pending.goneSs, k.Local)
		return
	}
	s := &session{
		engine: e, tunnel: t, local: k.Local, remote: k.Remote, state: sessionUp, call: k.Call, sequence: k.Sequence, required: k.Required, heard: k.Heard, accm: k.ACCM, since: k.Since,
		id: k.ID, login: k.Login, profile: k.Profile, online: k.Online, endsAt: k.Ends, slow: k.Slow,
		given: lease{ipv4: k.IPv4, prefix: k.Prefix, delegated: k.Deleg},
	}
	e.sessions[k.Local], t.sessions[k.Local] = s, s
	e.pending.sessions[k.Local] = true
	if t.onward != nil {
		return // what it needs is with the other side
	}
	settings := ppp.Config{Random: e.random}
	if srv := t.server; srv != nil {
		settings.Server, settings.Name, settings.Auth, settings.Echo = true, srv.HostName, srv.Methods, srv.Echo
		settings.IPv4, settings.IPv6 = s.given.ipv4.IsValid(), srv.IPv6
		srv.count++
		t.callIs(k.Remote, s)
		if k.Onward == nil {
			srv.hold(s)
		}
	} else {
		c := t.client
		settings.Auth, settings.Echo, settings.Login, settings.Password = c.Methods, c.Keepalive, c.Login, c.Password
		settings.IPv4, settings.IPv6 = c.IPv4, c.IPv6
		c.session = s
	}
	s.link = ppp.Restore(k.Link, settings, linkCarrier{s}, e.clock.Now())
	if k.Onward != nil {
		s.onward = *k.Onward
		s.link.Abandon()
	}
	if s.profile.Interim > 0 && s.online {
		s.interim = e.clock.Now().Add(s.profile.Interim)
	}
	if c := t.client; c != nil {
		if k.Link.V6 && k.V6 != nil {
			s.v6 = dhcp6client.Restore(k.V6, c.ipv6Client(s), ipv6Link{s}, e.clock.Now())
		}
		c.networkChanged(s, k.Link.V4, k.Link.V6)
	} else if k.Link.V6 {
		s.adverts = 100
		s.advertAt = e.clock.Now().Add(e.hosts.Again(s.adverts, e.upTo))
	}
	e.clock.Arm(s)
}
