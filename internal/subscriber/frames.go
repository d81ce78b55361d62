package subscriber

import (
	"net/netip"

	"weft/internal/ppp"
	"weft/internal/state"
	wireppp "weft/wire/ppp"
)

// sendFrame sends a frame of PPP to the peer.
func (s *session) sendFrame(p wireppp.Protocol, b []byte) {
	s.history.PPP(true, p, b, s.engine.clock.Now())
	s.sendRaw(wireppp.AppendFrame(make([]byte, 0, wireppp.FrameHeader+len(b)), p, b))
}

func (s *session) sendRaw(frame []byte) {
	if s.watch != nil {
		s.watch(Frame{At: s.engine.clock.Now(), Session: s.local, PPP: frame})
	}
	if s.l2tp.Sequenced() && s.carried() {
		// what the programs carry they number
		if n, ok := s.engine.backend.Number(s.local); ok {
			s.l2tp.SendNumbered(n, frame)
			return
		}
	}
	s.l2tp.Send(frame)
}

func (s *session) receiveFrame(frame []byte) {
	if s.watch != nil {
		s.watch(Frame{At: s.engine.clock.Now(), Session: s.local, Up: true, PPP: frame})
	}
	if s.relay(frame) {
		return
	}
	protocol, packet, err := wireppp.ParseFrame(frame)
	if err != nil {
		s.engine.stats.Malformed++
		return
	}
	s.history.PPP(false, protocol, packet, s.engine.clock.Now())
	switch {
	case protocol == wireppp.IPv4 && s.link.IPCP() == ppp.StateOpened:
		s.fromPeer(packet)
	case protocol == wireppp.IPv6 && s.link.IPV6CP() == ppp.StateOpened:
		s.fromPeer6(packet)
	default:
		s.link.Receive(protocol, packet, s.engine.clock.Now())
	}
}

// asState is what the datapath needs.
func (s *session) asState() state.L2TPSession {
	if s.forwarded() {
		return s.asForwarded()
	}
	l := s.link
	a := state.L2TPSession{Capture: s.watch != nil, Local: s.local, Remote: s.l2tp.Remote(), Tunnel: s.tunnel.Local(), LNS: s.access(), Sequence: s.l2tp.Sequenced(), Numbered: s.l2tp.Numbered(), First: s.l2tp.Next()}
	a.MTU = uint16(s.mtu())
	a.MSS = a.MTU - 40
	if s.tunnel.client != nil {
		a.Trusted = true
		if l.IPCP() == ppp.StateOpened {
			a.IPv4, _, _ = l.Addresses()
			a.Prefixes = append(a.Prefixes, netip.PrefixFrom(netip.IPv4Unspecified(), 0))
		}
		if l.IPV6CP() == ppp.StateOpened {
			a.Prefixes = append(a.Prefixes, netip.PrefixFrom(netip.IPv6Unspecified(), 0))
		}
		return a
	}
	p := s.profile
	a.Up, a.Down, a.WalledGarden = p.Up, p.Down, p.WalledGarden
	v4, v6 := s.passes(l.IPCP()), s.passes(l.IPV6CP())
	a.Blocked = !v4 && !v6
	if v4 {
		a.IPv4 = s.given.IPv4
	}
	if v6 {
		a.IPv6 = p.IPv6
	}
	a.Prefixes = s.prefixes()
	return a
}

// prefixes are those that belong to the subscriber now, single addresses left out.
func (s *session) prefixes() []netip.Prefix {
	var list []netip.Prefix
	v4, v6 := s.passes(s.link.IPCP()), s.passes(s.link.IPV6CP())
	add := func(p netip.Prefix) {
		if p.IsValid() && (p.Addr().Is4() && v4 || p.Addr().Is6() && v6) {
			list = append(list, p)
		}
	}
	add(s.given.Prefix)
	add(s.given.Delegated)
	for _, r := range s.profile.Routes {
		add(r)
	}
	return list
}

// mtu is what one IP packet may have: the peer's MRU, and not more than ours.
func (s *session) mtu() int {
	return s.link.MTU()
}

// linkInfo sends the LAC the ACCMs of its line, if they differ from what it has (SLI,
// RFC 2661 section 6.14). Until the first SLI a LAC escapes all control characters.
func (s *session) linkInfo(send, receive uint32) {
	if s.tunnel.server == nil || send == s.accm {
		return
	}
	s.accm = send
	s.l2tp.SetACCM(send, receive)
}
