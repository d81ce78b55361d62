package access

import (
	"bytes"
	"net/netip"
	"slices"
	"time"

	"github.com/mdlayher/ndp"

	"weft/wire/dhcp6"
	"weft/wire/ppp"
)

// What a subscriber is told of IPv6: router advertisements (RFC 4861) and
// DHCPv6 (RFC 8415). The session's own /64 and its delegated prefix last as
// long as the session, whatever lifetimes say.
const (
	advertEvery   = 10 * time.Minute
	advertFirst   = 3 // soon one after another, since one may be lost
	advertSoon    = 4 * time.Second
	routerLife    = 30 * time.Minute
	preferredLife = 45 * time.Minute
	validLife     = 90 * time.Minute
)

func (s *session) linkLocal() netip.Addr     { return interfaceAddress(s.link.v6.local) }
func (s *session) peerLinkLocal() netip.Addr { return interfaceAddress(s.link.v6.peer) }

// advertise tells the subscriber, and says when to do so again.
func (s *session) advertise() {
	s.adverts++
	s.advertAt = s.engine.now.Add(advertEvery)
	if s.adverts < advertFirst {
		s.advertAt = s.engine.now.Add(advertSoon)
	}
	s.sendAdvert(netip.IPv6LinkLocalAllNodes())
}

func (s *session) sendAdvert(to netip.Addr) {
	m := &ndp.RouterAdvertisement{
		CurrentHopLimit: 64, RouterLifetime: routerLife, OtherConfiguration: true,
		ManagedConfiguration: s.profile.IPv6.IsValid(),
	}
	m.Options = append(m.Options, ndp.NewMTU(uint32(max(s.mtu(), 1280))))
	if p := s.given.prefix; p.IsValid() {
		m.Options = append(m.Options, &ndp.PrefixInformation{
			PrefixLength: uint8(p.Bits()), Prefix: p.Addr(), AutonomousAddressConfiguration: p.Bits() == 64,
			PreferredLifetime: preferredLife, ValidLifetime: validLife,
		})
	}
	if dns := dnsOf(s.profile, s.tunnel.server, false); len(dns) > 0 {
		m.Options = append(m.Options, &ndp.RecursiveDNSServer{Lifetime: 3 * advertEvery, Servers: dns})
	}
	body, err := ndp.MarshalMessage(m)
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
	if payload, from, ok := p.udp6(dhcpServerPort); ok {
		if m, err := dhcp6.Parse(payload); err == nil && p.to.IsMulticast() {
			s.answerDHCP(m, p.from, from)
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

// serverID identifies the server (DUID-EN, RFC 8415 section 11.3): one per
// section, whatever links it has.
func (s *session) serverID() []byte {
	return append([]byte{0, 2, 0, 0, 0xff, 0xff}, "weft-"+s.tunnel.server.Name...)
}

// answerDHCP gives the subscriber its address and its prefix: there is one of
// each, and they are the session's whoever in the house asks.
func (s *session) answerDHCP(m *dhcp6.Message, peer netip.Addr, port uint16) {
	reply := &dhcp6.Message{Type: dhcp6.Reply, Transaction: m.Transaction, ClientID: m.ClientID, ServerID: s.serverID()}
	ours := bytes.Equal(m.ServerID, reply.ServerID)
	code := func(c dhcp6.Status) *dhcp6.Status { return &c }
	switch m.Type {
	case dhcp6.Solicit, dhcp6.Rebind, dhcp6.Confirm:
		if len(m.ClientID) == 0 || len(m.ServerID) > 0 {
			return
		}
	case dhcp6.Request, dhcp6.Renew, dhcp6.Release, dhcp6.Decline:
		if len(m.ClientID) == 0 || !ours {
			return
		}
	case dhcp6.InformationRequest:
		if len(m.ServerID) > 0 && !ours {
			return
		}
	default:
		return
	}
	switch m.Type {
	case dhcp6.Solicit, dhcp6.Request, dhcp6.Renew, dhcp6.Rebind:
		if m.Type == dhcp6.Solicit && !m.RapidCommit {
			reply.Type = dhcp6.Advertise
		}
		reply.RapidCommit = m.Type == dhcp6.Solicit && m.RapidCommit
		var address netip.Prefix
		if a := s.profile.IPv6; a.IsValid() {
			address = netip.PrefixFrom(a, 128)
		}
		reply.Addresses = grant(m.Addresses, address, dhcp6.NoAddrsAvail)
		reply.Prefixes = grant(m.Prefixes, s.given.delegated, dhcp6.NoPrefixAvail)
	case dhcp6.Confirm:
		asked := false
		reply.Status = code(dhcp6.Success)
		for _, ia := range m.Addresses {
			for _, l := range ia.Leases {
				asked = true
				if !s.owns(l.Prefix.Addr()) {
					reply.Status = code(dhcp6.NotOnLink)
				}
			}
		}
		if !asked {
			return
		}
	case dhcp6.Release, dhcp6.Decline:
		reply.Status = code(dhcp6.Success) // what a session has stays its own until it ends
	case dhcp6.InformationRequest:
		reply.Refresh = 4 * time.Hour
	}
	if len(m.Requested) == 0 || slices.Contains(m.Requested, dhcp6.OptionDNS) {
		reply.DNS = dnsOf(s.profile, s.tunnel.server, false)
	}
	b, err := reply.Marshal()
	if err != nil {
		return
	}
	if port == 0 {
		port = dhcpClientPort
	}
	s.sendFrame(ppp.IPv6, datagram6(s.linkLocal(), peer, dhcpServerPort, port, b))
}

// grant answers identity associations: the first gets what there is, and what
// a client still has and is not its own gets lifetime zero.
func grant(asked []dhcp6.IA, has netip.Prefix, none dhcp6.Status) []dhcp6.IA {
	var list []dhcp6.IA
	for _, ia := range asked {
		out := dhcp6.IA{ID: ia.ID}
		for _, l := range ia.Leases {
			if l.Prefix.IsValid() && l.Prefix != has && l.Prefix.Addr() != netip.IPv6Unspecified() {
				out.Leases = append(out.Leases, dhcp6.Lease{Prefix: l.Prefix})
			}
		}
		if has.IsValid() {
			out.T1, out.T2 = preferredLife/2, preferredLife*4/5
			out.Leases = append(out.Leases, dhcp6.Lease{Prefix: has, Preferred: preferredLife, Valid: validLife})
			has = netip.Prefix{}
		} else {
			out.Status = &none
		}
		list = append(list, out)
	}
	return list
}

// newTransaction makes up a transaction number of DHCPv6.
func newTransaction(random func([]byte)) (t [3]byte) {
	random(t[:])
	return t
}
