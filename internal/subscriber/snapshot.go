package subscriber

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"weft/internal/addresspool"
	"weft/internal/dhcp6client"
	"weft/internal/l2tp"
	"weft/internal/ppp"
	"weft/internal/timer"
)

// What is kept of tunnels and sessions so that the next process takes over
// where this one stopped, and peers notice nothing.

// Stored is one change of the store: Value is nil for what is gone.
type Stored struct {
	Key   string
	Value []byte
}

type storedTunnel struct {
	l2tp.TunnelSnapshot
	Server     string        `json:"server,omitempty"`
	Client     string        `json:"client,omitempty"`
	LAC        string        `json:"lac"`
	SwitchedTo *SwitchTarget `json:"onward,omitempty"` // the server that it leads to
	Calls      uint32        `json:"calls,omitempty"`
	By         string        `json:"by,omitempty"` // a client's settings (ClientSettings.mark)
}

type storedSession struct {
	l2tp.SessionSnapshot
	Call       Call                  `json:"call"`
	ACCM       uint32                `json:"accm,omitempty"`
	ID         string                `json:"id"`
	Login      string                `json:"login"`
	Profile    Profile               `json:"profile"`
	IPv4       netip.Addr            `json:"ipv4,omitzero"`
	Prefix     netip.Prefix          `json:"prefix,omitzero"`
	Deleg      netip.Prefix          `json:"delegated,omitzero"`
	Online     bool                  `json:"online"`
	Since      time.Time             `json:"since"`
	Ends       time.Time             `json:"ends,omitzero"`
	Slow       Traffic               `json:"slow"`
	Base       *Traffic              `json:"base,omitempty"`
	Link       ppp.Snapshot          `json:"link"`
	SwitchedTo *SwitchTarget         `json:"onward,omitempty"` // where it goes on to
	Pair       uint16                `json:"pair,omitempty"`   // and by which session
	V6         *dhcp6client.Snapshot `json:"v6,omitempty"`     // of a client
}

func tunnelKey(id uint16) string  { return "tunnel/" + strconv.Itoa(int(id)) }
func sessionKey(id uint16) string { return "session/" + strconv.Itoa(int(id)) }

// toStore returns the changes, tunnels first.
func (e *Engine) toStore(tunnels, sessions map[uint16]bool) []Stored {
	list := make([]Stored, 0, len(tunnels)+len(sessions))
	put := func(key string, v any) {
		if b, err := json.Marshal(v); err == nil {
			list = append(list, Stored{key, b})
		}
	}
	for id, there := range tunnels {
		if !there {
			list = append(list, Stored{Key: tunnelKey(id)})
		} else if t := e.l2tp.Tunnel(id); t != nil {
			if k, up := t.Snapshot(); up {
				put(tunnelKey(id), t.Owner().(*tunnel).stored(k))
			}
		}
	}
	for id, there := range sessions {
		s := e.sessions[id]
		switch {
		case there && s != nil && s.up() && s.carried():
			put(sessionKey(id), s.stored())
		case !there:
			list = append(list, Stored{Key: sessionKey(id)})
		}
	}
	return list
}

// running reports whether a session carries something.
func (s *session) running() bool {
	return s.link != nil && (s.link.IPCP() == ppp.StateOpened || s.link.IPV6CP() == ppp.StateOpened)
}

func (t *tunnel) stored(k l2tp.TunnelSnapshot) storedTunnel {
	o := storedTunnel{TunnelSnapshot: k, LAC: t.lac}
	switch {
	case t.server != nil:
		o.Server = t.server.Name
	case t.client != nil:
		o.Client, o.By = t.client.Name, t.client.mark()
	default:
		o.SwitchedTo, o.Calls = &t.toServer.SwitchTarget, t.toServer.calls
	}
	return o
}

func (s *session) stored() storedSession {
	l := s.link
	o := storedSession{
		SessionSnapshot: s.l2tp.Snapshot(), Call: s.call, ACCM: s.accm, ID: s.id, Login: s.login,
		Profile: s.profile, IPv4: s.given.IPv4, Prefix: s.given.Prefix, Deleg: s.given.Delegated, Online: s.online, Since: s.since,
		Ends: s.endsAt, Slow: s.slow, Base: s.base,
	}
	if s.pair != nil {
		o.Pair = s.pair.local
	}
	if l == nil {
		return o // the side of the other server has none
	}
	if s.pair != nil {
		o.SwitchedTo = &s.target
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
			return fmt.Errorf("read the stored state of %s: %w", k.Key, err)
		}
	}
	slices.SortFunc(sessions, func(a, b storedSession) int { return int(a.Local) - int(b.Local) })
	for _, s := range sessions {
		e.restoreSession(s)
	}
	e.restorePairs(sessions)
	for _, t := range e.tunnels() {
		// a client's tunnel without its session is of no use: it is set up again
		if t.client != nil && t.client.session == nil {
			t.Fail("the session was not kept")
		} else if t.client != nil && t.outdated {
			t.client.renew()
		}
	}
	return nil
}

func (e *Engine) restoreTunnel(k storedTunnel) {
	t := &tunnel{engine: e, lac: k.LAC, server: e.servers[k.Server], client: e.clients[k.Client]}
	c := l2tp.Config{Owner: t}
	switch {
	case t.server != nil:
		c.Hello = t.server.Hello
	case t.client != nil:
		c.Hello = t.client.Keepalive
	}
	if k.SwitchedTo != nil {
		e.restoreSwitch(t, *k.SwitchedTo, k.Calls)
	}
	if t.server == nil && t.client == nil && t.toServer == nil {
		e.l2tp.Drop(k.Local)
		return
	}
	if t.Tunnel = e.l2tp.RestoreTunnel(k.TunnelSnapshot, c, t.server == nil); t.Tunnel == nil {
		e.l2tp.Drop(k.Local)
		return
	}
	if t.client != nil {
		t.client.tunnel = t
		t.outdated = k.By != "" && k.By != t.client.mark()
		e.clock.Disarm(t.client)
	}
	e.pending.tunnels[k.Local] = true
}

func (e *Engine) restoreSession(k storedSession) {
	s := &session{
		engine: e, local: k.Local, call: k.Call, accm: k.ACCM, since: timer.Anchored(k.Since, e.clock.Now()),
		id: k.ID, login: k.Login, profile: k.Profile, online: k.Online, endsAt: timer.Anchored(k.Ends, e.clock.Now()), slow: k.Slow, base: k.Base,
		given: addresspool.Lease{IPv4: k.IPv4, Prefix: k.Prefix, Delegated: k.Deleg},
	}
	if s.l2tp = e.l2tp.RestoreSession(k.SessionSnapshot, l2tpUser{s}); s.l2tp == nil {
		e.pending.stored[k.Local] = false
		e.pending.gone = append(e.pending.gone, k.Local)
		return
	}
	t := s.l2tp.Tunnel().Owner().(*tunnel)
	s.tunnel = t
	e.sessions[k.Local] = s
	e.pending.sessions[k.Local] = true
	if t.toServer != nil {
		return // what it needs is with the other side
	}
	settings := ppp.Config{Random: e.random}
	if srv := t.server; srv != nil {
		settings.Server, settings.Name, settings.Auth, settings.Echo = true, srv.HostName, srv.Methods, srv.Echo
		settings.IPv4, settings.IPv6 = s.given.IPv4.IsValid(), srv.IPv6
		srv.count++
		if k.SwitchedTo == nil {
			srv.hold(s)
		}
	} else {
		c := t.client
		settings.Auth, settings.Echo, settings.Login, settings.Password = c.Methods, c.Keepalive, c.Login, c.Password
		settings.IPv4, settings.IPv6 = c.IPv4, c.IPv6
		c.session = s
	}
	s.link = ppp.Restore(k.Link, settings, linkCarrier{s}, e.clock.Now())
	if k.SwitchedTo != nil {
		s.target = *k.SwitchedTo
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
