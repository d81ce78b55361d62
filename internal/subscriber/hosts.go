package subscriber

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/mdlayher/ndp"

	"weft/internal/ppp"
	"weft/internal/state"
	"weft/wire/dhcp6"
	"weft/wire/ipv6"
	wireppp "weft/wire/ppp"
)

// HostResponder answers a subscriber's hosts: router advertisements and DHCPv6. Feature ra
// has it.
type HostResponder interface {
	// Advertisement gives a router advertisement, its checksum left open.
	Advertisement(state.HostLink) ([]byte, error)
	// Again is how long to wait after the n-th; random gives up to so long.
	Again(n int, random func(time.Duration) time.Duration) time.Duration
	// Answer answers a message of DHCPv6; nil is no answer. unicast: it was sent
	// to the router alone.
	Answer(l state.HostLink, message []byte, unicast bool) []byte
}

func (s *session) linkLocal() netip.Addr {
	local, _ := s.link.InterfaceIDs()
	return ppp.LinkLocal(local)
}

func (s *session) peerLinkLocal() netip.Addr {
	_, peer := s.link.InterfaceIDs()
	return ppp.LinkLocal(peer)
}

// advertise tells the subscriber, and says when to do so again.
func (s *session) advertise() {
	s.adverts = min(s.adverts+1, 100)
	s.advertAt = s.engine.clock.Now().Add(s.engine.hosts.Again(s.adverts, s.engine.upTo))
	s.sendAdvert(netip.IPv6LinkLocalAllNodes())
}

// upTo returns a random time.
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
	if portal != "" && !s.profile.WalledGarden {
		portal = unrestricted
	}
	return state.HostLink{
		Server: "weft-" + srv.Name, MTU: s.mtu(), Prefix: s.given.Prefix, Address: s.profile.IPv6, Delegated: s.given.Delegated,
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
	s.sendFrame(wireppp.IPv6, ipv6.Packet{From: s.linkLocal(), To: to, NextHeader: ipv6.ICMPv6, HopLimit: 255, Payload: body}.Marshal(2))
}

// receiveOnLink takes what a subscriber says on its link.
func (s *session) receiveOnLink(p ipv6.Packet) {
	if payload, port, ok := p.Datagram(dhcp6.ServerPort); ok {
		if b := s.engine.hosts.Answer(s.hostLink(), payload, !p.To.IsMulticast()); b != nil {
			s.sendFrame(wireppp.IPv6, ipv6.MarshalUDP(s.linkLocal(), p.From, dhcp6.ServerPort, orElse(port, dhcp6.ClientPort), b))
		}
		return
	}
	if p.NextHeader != ipv6.ICMPv6 || len(p.Payload) < 8 || p.Checksum(p.Payload) != 0 {
		return
	}
	switch p.Payload[0] {
	case 133: // router solicitation
		if p.HopLimit == ndp.HopLimit && p.Payload[1] == 0 {
			to := netip.IPv6LinkLocalAllNodes()
			if p.From.IsLinkLocalUnicast() {
				to = p.From
			}
			s.sendAdvert(to)
		}
	case 128: // echo request to the link-local address
		if p.To == s.linkLocal() && len(p.Payload) <= s.mtu()-ipv6.HeaderLen {
			reply := bytes.Clone(p.Payload)
			reply[0] = 129
			s.sendFrame(wireppp.IPv6, ipv6.Packet{From: p.To, To: p.From, NextHeader: ipv6.ICMPv6, HopLimit: 64, Payload: reply}.Marshal(2))
		}
	case 135: // neighbour solicitation, which a point-to-point link does without; some send it
		s.answerNeighbour(p)
	}
}

func (s *session) answerNeighbour(p ipv6.Packet) {
	if len(p.Payload) < 24 || p.HopLimit != ndp.HopLimit || p.From.IsUnspecified() || netip.AddrFrom16([16]byte(p.Payload[8:24])) != s.linkLocal() {
		return
	}
	b := []byte{136, 0, 0, 0, 0xe0, 0, 0, 0} // router, solicited, override
	self := s.linkLocal().As16()
	s.sendFrame(wireppp.IPv6, ipv6.Packet{From: s.linkLocal(), To: p.From, NextHeader: ipv6.ICMPv6, HopLimit: 255, Payload: append(b, self[:]...)}.Marshal(2))
}
