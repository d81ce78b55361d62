package l2tp

import (
	"bytes"
	"crypto/sha256"
	"net/netip"
	"slices"
	"time"

	"weft/wire/l2tp"
)

// requested takes a message for no tunnel: the first of a new one.
func (e *Endpoint) requested(here, from netip.AddrPort, h l2tp.Header, body []byte) {
	if len(body) == 0 {
		e.stats.Unknown++
		return
	}
	// hidden attributes need the secret, and who it is stands in one that is not
	kind, host, err := l2tp.Peek(body)
	if err == nil && kind == l2tp.StopCCN {
		e.cancelled(from, h, body)
		return
	}
	if err != nil || kind != l2tp.SCCRQ {
		e.stats.Malformed++
		return
	}
	c, ok := e.host.Authorize(here, from.Addr(), string(host))
	if !ok {
		e.stats.Refused++
		if m, err := l2tp.ParseMessage(body, nil); err == nil {
			e.refuse(here, from, h, m, l2tp.Result{Code: l2tp.StopUnauthorized, Text: "unknown peer"})
		}
		return
	}
	m, err := l2tp.ParseMessage(body, []byte(c.Secret))
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
	if old := e.repeated(key, sum, e.clock.Now()); old != nil {
		if old.state == WaitConnect { // else it is a copy that was long on its way
			old.received = old.now()
			old.channel.again(old.send)
		}
		return
	}
	if r := refusal(m); r != nil {
		e.stats.Refused++
		e.refuse(here, from, h, m, *r)
		return
	}
	beats, ok := e.winsTie(from.Addr(), m)
	if !ok {
		return
	}
	local, ok := e.tunnelID()
	if !ok || len(e.tunnels)-e.unproven.count >= tunnelsMax {
		e.refuse(here, from, h, m, l2tp.Result{Code: l2tp.StopError, Error: l2tp.ErrorResources})
		return
	}
	t := &Tunnel{
		endpoint: e, owner: c.Owner, hostName: c.HostName, hello: c.Hello, local: local, here: here, peer: from, state: WaitConnect,
		channel: newChannel(id), secret: []byte(c.Secret), hide: c.Hide, first: sum, sessions: map[uint16]*Session{},
		since: e.clock.Now(), received: e.clock.Now(), deadline: e.clock.Now().Add(handshakeTime), beats: beats,
	}
	t.channel.driven = true
	t.host, t.vendor = m.Text(l2tp.HostName), m.Text(l2tp.VendorName)
	e.tunnels[local] = t
	e.index(t)
	if victim := e.unproven.add(t); victim != nil {
		victim.discard()
	}
	t.channel.receive(h, false, e.clock.Now())
	t.peerWindow(m)
	t.traced(false, m)
	t.push(0, t.setupMessage(l2tp.SCCRP, m))
	t.flush()
}

// repeatFor is how long after a tunnel stands a copy of its first message may
// still be on its way.
const repeatFor = 2 * retransmitFirst

// restarted reports whether a first message that is the same as before is no copy:
// who has confirmed the tunnel does not ask for it again. A peer without
// randomness that was switched off and on does.
func (t *Tunnel) restarted(now time.Time) bool {
	return t.state == TunnelUp && now.Sub(t.since) >= repeatFor
}

// tunnelsMax bounds the tunnels of all peers that have proven themselves.
const tunnelsMax = 8192

// winsTie reports whether a peer's tunnel is one to go on with, if both have asked the other
// for one at the same time (section 4.4.3): the lower value wins, and a side that sent
// none loses. The loser's tunnel ends without a word: the peer's now, those of this end
// (beats) once the peer has confirmed its own, as anyone may send a low value. With one
// value, which only the peer knows, both end.
func (e *Endpoint) winsTie(peer netip.Addr, m *l2tp.Message) (beats []*Tunnel, goOn bool) {
	theirs, has := m.Get(l2tp.TieBreaker)
	goOn = true
	for _, t := range slices.Clone(e.asking[peer]) {
		if t.state != WaitReply || t.tie == nil {
			continue
		}
		order := -1
		if has {
			order = bytes.Compare(t.tie, theirs)
		}
		switch {
		case order < 0:
			goOn = false
		case order > 0:
			beats = append(beats, t)
		default:
			goOn = false
			t.remove()
			t.down("the server has asked for a tunnel itself")
		}
	}
	return beats, goOn
}

// refusal returns what keeps a tunnel from being set up.
func refusal(m *l2tp.Message) *l2tp.Result {
	if v, ok := m.Uint16(l2tp.ProtocolVersion); !ok || v>>8 != 1 {
		return &l2tp.Result{Code: l2tp.StopVersion, Error: 0x0100, Text: "only protocol version 1 revision 0 is supported"}
	}
	if m.Unknown {
		return &l2tp.Result{Code: l2tp.StopError, Error: l2tp.ErrorMandatory}
	}
	return nil
}

// refuse answers without making a tunnel. If the answer is lost the peer asks
// again, and gets it again.
func (e *Endpoint) refuse(here, from netip.AddrPort, h l2tp.Header, m *l2tp.Message, r l2tp.Result) {
	if !e.mayRefuse() {
		return
	}
	id, _ := m.Uint16(l2tp.AssignedTunnelID)
	local, _ := e.tunnelID()
	stop := l2tp.New(l2tp.StopCCN).AddUint16(l2tp.AssignedTunnelID, local).AddResult(r)
	e.host.Send(here, from, l2tp.Control{Tunnel: id, Nr: h.Ns + 1, Body: stop.Marshal()}.Marshal())
}
