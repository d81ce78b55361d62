package subscriber

import (
	"net/netip"
	"slices"

	"weft/internal/limit"
	"weft/internal/ppp"
	"weft/wire/ipv6"
	"weft/wire/oversize"
	wireppp "weft/wire/ppp"
)

// Packets that the datapath left to the daemon, or all of them while there is
// none. It is the slow path, and the readable form of what the programs do.

// fromPeer takes an IP packet out of a session.
func (s *session) fromPeer(ip []byte) {
	from, to, ok := oversize.Addresses(ip)
	if !ok {
		s.engine.stats.Malformed++
		return
	}
	if s.tunnel.server != nil && !s.owns(from) {
		s.engine.stats.Spoofed++
		return
	}
	if !s.walledGardenPasses(to) {
		s.engine.stats.WalledGarden++
		return
	}
	if !s.rateUp.Pass(s.profile.Up, len(ip), s.engine.clock.Now()) {
		return
	}
	s.slow.UpPackets++
	s.slow.UpBytes += uint64(len(ip))
	s.engine.backend.Deliver(s.access(), ip)
}

// owns reports whether an address is the subscriber's.
func (s *session) owns(a netip.Addr) bool {
	if a == s.given.IPv4 && a.IsValid() || a == s.profile.IPv6 && a.IsValid() {
		return true
	}
	return slices.ContainsFunc(s.prefixes(), func(p netip.Prefix) bool { return p.Contains(a) })
}

// walledGardenPasses reports whether the walled garden lets a subscriber reach an address, and
// be reached from it.
func (s *session) walledGardenPasses(far netip.Addr) bool {
	srv := s.tunnel.server
	return srv == nil || !s.profile.WalledGarden || slices.ContainsFunc(srv.WalledGarden, func(p netip.Prefix) bool { return p.Contains(far) })
}

// fromPeer6 is fromPeer for IPv6. It separates the messages for the link itself.
func (s *session) fromPeer6(ip []byte) {
	from, to, ok := oversize.Addresses(ip)
	if !ok {
		s.engine.stats.Malformed++
		return
	}
	if !from.IsLinkLocalUnicast() && !from.IsUnspecified() && !to.IsLinkLocalUnicast() && !to.IsMulticast() {
		s.fromPeer(ip)
		return
	}
	p, err := ipv6.Parse(ip)
	if err != nil {
		s.engine.stats.Malformed++
		return
	}
	if s.tunnel.server != nil {
		s.receiveOnLink(p)
	} else if s.v6 != nil {
		s.v6.Receive(p, s.engine.clock.Now())
	}
}

// Transmit takes an IP packet for a subscriber of a section, or for a client's
// server; device tells which.
func (e *Engine) Transmit(device string, ip []byte) {
	from, to, ok := oversize.Addresses(ip)
	if !ok || to.IsMulticast() || to.IsLinkLocalUnicast() {
		return
	}
	s := e.destination(device, to)
	if s == nil || !s.up() {
		e.stats.NoSession++
		return
	}
	if !s.walledGardenPasses(from) {
		e.stats.WalledGarden++
		return
	}
	protocol, open := wireppp.IPv4, s.link.IPCP() == ppp.StateOpened
	if to.Is6() {
		protocol, open = wireppp.IPv6, s.link.IPV6CP() == ppp.StateOpened
	}
	if !open {
		e.stats.NoSession++
		return
	}
	if len(ip) > s.mtu() {
		if answer := oversize.Answer(ip, s.mtu(), s.routerAddress(to.Is6())); answer != nil {
			if len(answer) > 0 && s.mayAnswer() {
				e.backend.Reply(s.access(), answer)
			}
			return
		}
		for _, piece := range oversize.Fragments(ip, s.mtu()) {
			s.transmit(protocol, piece)
		}
		return
	}
	s.transmit(protocol, ip)
}

// Limits of ICMP errors (RFC 1812 section 4.3.2.8, RFC 4443 section 2.4 f): about packets
// for one session, so that a flood for one takes nothing from others, and in all.
var (
	sessionErrors = limit.Rate{PerSecond: 10, Burst: 20}
	allErrors     = limit.Rate{PerSecond: 500, Burst: 500}
)

func (s *session) mayAnswer() bool {
	now := s.engine.clock.Now()
	return s.errors.Take(1, sessionErrors, now) && s.engine.errors.Take(1, allErrors, now)
}

func (s *session) transmit(p wireppp.Protocol, ip []byte) {
	if !s.rateDown.Pass(s.profile.Down, len(ip), s.engine.clock.Now()) {
		return
	}
	s.slow.DownPackets++
	s.slow.DownBytes += uint64(len(ip))
	s.sendFrame(p, ip)
}

func (s *session) routerAddress(v6 bool) netip.Addr {
	if srv := s.tunnel.server; srv != nil && !v6 {
		return srv.Gateway
	}
	if !v6 {
		local, _, _ := s.link.Addresses()
		return local
	}
	for _, p := range s.prefixes() {
		if p.Addr().Is6() && s.tunnel.server != nil {
			return p.Addr() // the subnet-router anycast address (RFC 4291 section 2.6.1)
		}
	}
	return netip.Addr{}
}

func (e *Engine) destination(device string, to netip.Addr) *session {
	for _, srv := range e.servers {
		if srv.Device == device {
			s, _ := srv.destined.Lookup(to)
			return s
		}
	}
	for _, c := range e.clients {
		if c.Device == device {
			return c.session
		}
	}
	return nil
}
