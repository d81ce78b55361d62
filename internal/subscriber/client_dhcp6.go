package subscriber

import (
	"net/netip"
	"slices"

	"weft/internal/dhcp6client"
	wireppp "weft/wire/ppp"
)

// A client's session has IPv6 by router discovery and DHCPv6 (internal/dhcp6client).

// ipv6Client returns the settings of a session's DHCPv6 client.
func (c *client) ipv6Client(s *session) dhcp6client.Config {
	own, _ := s.link.InterfaceIDs()
	return dhcp6client.Config{
		Identity: "weft-" + c.Name + "-" + c.Login, InterfaceID: own, Prefix: c.Prefix, Random: s.engine.random,
	}
}

// ipv6Link is the session as its DHCPv6 client sees it.
type ipv6Link struct{ *session }

func (l ipv6Link) SendIPv6(packet []byte) { l.sendFrame(wireppp.IPv6, packet) }

// Changed takes over what the client has now.
func (l ipv6Link) Changed() {
	g := &l.tunnel.client.learned
	g.Addresses, g.Delegated, g.Router = nil, netip.Prefix{}, false
	g.DNS = slices.DeleteFunc(slices.Clone(g.DNS), netip.Addr.Is6)
	learnIPv6(g, l.v6.Lease())
	l.engine.pending.stored[l.local] = true
}

// learnIPv6 adds what a DHCPv6 client has.
func learnIPv6(g *Learned, l dhcp6client.Lease) {
	g.Addresses, g.Delegated, g.Router = append(g.Addresses, l.Addresses...), l.Delegated, l.Router
	g.Preferred, g.Valid = l.Ends.Preferred, l.Ends.Valid
	g.DNS = append(g.DNS, l.DNS...)
}
