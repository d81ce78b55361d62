package state

import "net/netip"

// HostLink is a point-to-point link of another feature, with the parameters for the
// router advertisements and DHCPv6 on it, which feature ra sends. It exists as long
// as the link.
type HostLink struct {
	Server    string       // the router, to DHCPv6 clients: one for all links of a section
	MTU       int          // of the link
	Prefix    netip.Prefix // that hosts make addresses of; not valid: none
	Address   netip.Addr   // by DHCPv6
	Delegated netip.Prefix // by DHCPv6
	DNS       []netip.Addr // IPv6 only
	Search    []string
	PREF64    []netip.Prefix // of the translators behind this router
	Routes    []netip.Prefix // that are reached by this router, besides all else
	Portal    string         // the captive portal's URI (RFC 8910)
}
