package access

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/mdlayher/ndp"

	"weft/internal/state"
	"weft/wire/ppp"
)

// Hosts makes what a subscriber's hosts are told of IPv6: feature ra does.
type Hosts interface {
	// Advertisement gives a router advertisement, its checksum left open.
	Advertisement(state.HostLink) ([]byte, error)
	// Again is how long to wait after the n-th; random gives up to so long.
	Again(n int, random func(time.Duration) time.Duration) time.Duration
	// Answer answers a message of DHCPv6; nil is no answer. unicast: it was sent
	// to the router alone.
	Answer(l state.HostLink, message []byte, unicast bool) []byte
}

func (s *session) linkLocal() netip.Addr     { return interfaceAddress(s.link.v6.local) }
func (s *session) peerLinkLocal() netip.Addr { return interfaceAddress(s.link.v6.peer) }

// advertise tells the subscriber, and says when to do so again.
func (s *session) advertise() {
	s.adverts = min(s.adverts+1, 100)
	s.advertAt = s.engine.now.Add(s.engine.hosts.Again(s.adverts, s.engine.upTo))
	s.sendAdvert(netip.IPv6LinkLocalAllNodes())
}

// upTo gives a random time.
func (e *Engine) upTo(d time.Duration) time.Duration {
	var b [4]byte
	e.random(b[:])
	return time.Duration(float64(d) * float64(binary.BigEndian.Uint32(b[:])) / (1 << 32))
}

// hostLink is what the subscriber's hosts are to know. The session's own /64
// and its delegated prefix last as long as the session.
func (s *session) hostLink() state.HostLink {
	srv := s.tunnel.server
	portal := srv.Portal
	if portal != "" && !s.profile.Garden {
		portal = unrestricted
	}
	return state.HostLink{
		Server: "weft-" + srv.Name, MTU: s.mtu(), Prefix: s.given.prefix, Address: s.profile.IPv6, Delegated: s.given.delegated,
		DNS: dnsOf(s.profile, srv, false), PREF64: srv.PREF64,
		Routes: s.profile.Advertised, Portal: portal,
	}
}

// unrestricted says that there is no captive portal, or no longer (RFC 8910
// section 2.2).
const unrestricted = "urn:ietf:params:capport:unrestricted"

func (s *session) sendAdvert(to netip.Addr) {
	body, err := s.engine.hosts.Advertisement(s.hostLink())
	if err != nil {
		return
	}
	s.sendFrame(ppp.IPv6, packet6{from: s.linkLocal(), to: to, proto: protoICMPv6, hops: 255, payload: body}.marshal(2))
}

// DHCPv6 ports (RFC 8415 section 7.2).
const (
	dhcpClientPort = 546
	dhcpServerPort = 547
)

// hear takes what a subscriber says on its link.
func (s *session) hear(p packet6) {
	if payload, port, ok := p.udp6(dhcpServerPort); ok {
		if b := s.engine.hosts.Answer(s.hostLink(), payload, !p.to.IsMulticast()); b != nil {
			s.sendFrame(ppp.IPv6, datagram6(s.linkLocal(), p.from, dhcpServerPort, orElse(port, dhcpClientPort), b))
		}
		return
	}
	if p.proto != protoICMPv6 || len(p.payload) < 8 || p.checksum(p.payload) != 0 {
		return
	}
	switch p.payload[0] {
	case 133: // router solicitation
		if p.hops == ndp.HopLimit && p.payload[1] == 0 {
			to := netip.IPv6LinkLocalAllNodes()
			if p.from.IsLinkLocalUnicast() {
				to = p.from
			}
			s.sendAdvert(to)
		}
	case 128: // echo request to the link-local address
		if p.to == s.linkLocal() && len(p.payload) <= s.mtu()-header6 {
			reply := bytes.Clone(p.payload)
			reply[0] = 129
			s.sendFrame(ppp.IPv6, packet6{from: p.to, to: p.from, proto: protoICMPv6, hops: 64, payload: reply}.marshal(2))
		}
	case 135: // neighbour solicitation, which a point-to-point link does without; some send it
		s.solicited(p)
	}
}

func (s *session) solicited(p packet6) {
	if len(p.payload) < 24 || p.hops != ndp.HopLimit || p.from.IsUnspecified() || netip.AddrFrom16([16]byte(p.payload[8:24])) != s.linkLocal() {
		return
	}
	b := []byte{136, 0, 0, 0, 0xe0, 0, 0, 0} // router, solicited, override
	self := s.linkLocal().As16()
	s.sendFrame(ppp.IPv6, packet6{from: s.linkLocal(), to: p.from, proto: protoICMPv6, hops: 255, payload: append(b, self[:]...)}.marshal(2))
}

// newTransaction makes up a transaction number of DHCPv6.
func newTransaction(random func([]byte)) (t [3]byte) {
	random(t[:])
	return t
}
