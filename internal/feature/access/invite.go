package access

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"net/netip"
	"slices"
	"time"

	"weft/wire/l2tp"
)

// invited takes a message for no tunnel: the first of a new one.
func (e *Engine) invited(here, from netip.AddrPort, h l2tp.Header, body []byte) {
	if len(body) == 0 {
		e.stats.Unknown++
		return
	}
	// hidden attributes need the secret, and who it is stands in one that is not
	kind, host, err := l2tp.Peek(body)
	if err == nil && kind == l2tp.StopCCN {
		e.withdrawn(from, h, body)
		return
	}
	if err != nil || kind != l2tp.SCCRQ {
		e.stats.Malformed++
		return
	}
	srv, lac := e.lacOf(here, from.Addr(), string(host))
	if srv == nil {
		e.stats.Refused++
		if m, err := l2tp.ParseMessage(body, nil); err == nil {
			e.refuse(here, from, h, m, l2tp.Result{Code: l2tp.StopUnauthorized, Text: "this peer is not known here"})
		}
		return
	}
	m, err := l2tp.ParseMessage(body, []byte(lac.Secret))
	if err != nil {
		e.stats.Malformed++
		return
	}
	id, ok := m.Uint16(l2tp.AssignedTunnelID)
	if !ok || id == 0 {
		e.stats.Malformed++
		return
	}
	key := peerKey{from, id}
	sum := sha256.Sum256(body)
	if old := e.byPeer[key]; old != nil {
		switch {
		case old.first != sum || old.outlived(e.clock.Now()):
		case old.state == tunnelUp:
			return // a copy that was long on its way: it has been answered
		default:
			old.receive(h, body) // it repeats itself
			return
		}
		old.abandon("the peer began anew") // it forgot that it had this tunnel
	}
	if r := unwelcome(m); r != nil {
		e.stats.Refused++
		e.refuse(here, from, h, m, *r)
		return
	}
	if !e.tieBroken(from.Addr(), m) {
		return
	}
	local, ok := freeID(&e.nextT, e.tunnels, e.leaving.tunnels)
	if !ok || len(e.tunnels) >= tunnelsMax {
		e.refuse(here, from, h, m, l2tp.Result{Code: l2tp.StopError, Error: l2tp.ErrorResources})
		return
	}
	t := &tunnel{
		engine: e, server: srv, local: local, here: here, peer: from, state: tunnelWaitConnect, channel: newChannel(id),
		secret: []byte(lac.Secret), hide: lac.Hide, first: sum, lac: lac.Name, sessions: map[uint16]*session{},
		since: e.clock.Now(), heard: e.clock.Now(), deadline: e.clock.Now().Add(handshakeTime),
	}
	t.host, t.vendor = m.Text(l2tp.HostName), m.Text(l2tp.VendorName)
	e.tunnels[local], e.byPeer[key] = t, t
	t.channel.receive(h, false, e.clock.Now())
	t.peerWindow(m)
	t.history.l2tp(false, m, e.clock.Now())
	t.push(0, t.introduce(l2tp.SCCRP, m))
	t.flush()
}

// repeatFor is how long after a tunnel stands a copy of its first message may
// still be on its way.
const repeatFor = 2 * retransmitFirst

// outlived tells whether a first message that is the same as before is no copy:
// who has confirmed the tunnel does not ask for it again. A peer without
// randomness that was switched off and on does.
func (t *tunnel) outlived(now time.Time) bool {
	return t.state == tunnelUp && now.Sub(t.since) >= repeatFor
}

// tunnelsMax bounds tunnels, whoever asks.
const tunnelsMax = 8192

// tieBroken tells whether a peer's tunnel is the one to go on with, if both
// have asked the other for one at the same time (section 4.4.3): the lower
// value wins, and a side that sent none loses. The loser's tunnel ends without
// a word.
func (e *Engine) tieBroken(peer netip.Addr, m *l2tp.Message) bool {
	theirs, has := m.Get(l2tp.TieBreaker)
	goOn := true
	for _, t := range e.sortedTunnels() {
		if t.server != nil || t.state != tunnelWaitReply || t.peer.Addr() != peer || t.tie == nil {
			continue
		}
		order := -1
		if has {
			order = bytes.Compare(t.tie, theirs)
		}
		if order <= 0 {
			goOn = false
		}
		if order >= 0 {
			t.remove()
			t.tellDown("the server has asked for a tunnel itself")
		}
	}
	return goOn
}

// unwelcome tells what keeps a tunnel from being set up.
func unwelcome(m *l2tp.Message) *l2tp.Result {
	if v, ok := m.Uint16(l2tp.ProtocolVersion); !ok || v>>8 != 1 {
		return &l2tp.Result{Code: l2tp.StopVersion, Error: 0x0100, Text: "version 1 revision 0 is spoken here"}
	}
	if m.Unknown {
		return &l2tp.Result{Code: l2tp.StopError, Error: l2tp.ErrorMandatory}
	}
	return nil
}

// refuse answers without making a tunnel. If the answer is lost the peer asks
// again, and gets it again.
func (e *Engine) refuse(here, from netip.AddrPort, h l2tp.Header, m *l2tp.Message, r l2tp.Result) {
	id, _ := m.Uint16(l2tp.AssignedTunnelID)
	local, _ := freeID(&e.nextT, e.tunnels, e.leaving.tunnels)
	stop := l2tp.New(l2tp.StopCCN).AddUint16(l2tp.AssignedTunnelID, local).AddResult(r)
	e.world.Send(here, from, l2tp.Control{Tunnel: id, Nr: h.Ns + 1, Body: stop.Marshal()}.Marshal())
}

// lacOf finds who a peer is.
func (e *Engine) lacOf(here netip.AddrPort, from netip.Addr, host string) (*server, *LAC) {
	for _, s := range e.sortedServers() {
		if !slices.Contains(s.Listen, here) {
			continue
		}
		var best *LAC
		for i := range s.LACs {
			l := &s.LACs[i]
			if !l.Address.Contains(from) || l.HostName != "" && l.HostName != host {
				continue
			}
			if best == nil || l.Address.Bits() > best.Address.Bits() || l.Address.Bits() == best.Address.Bits() && best.HostName == "" {
				best = l
			}
		}
		if best != nil {
			return s, best
		}
	}
	return nil, nil
}

func (e *Engine) sortedServers() []*server {
	list := make([]*server, 0, len(e.servers))
	for _, s := range e.servers {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b *server) int { return cmp.Compare(a.Name, b.Name) })
	return list
}
