package state

import "net/netip"

// AddressSet is the content of a set of nftables.
type AddressSet struct {
	Prefixes []netip.Prefix
	Silent   bool // elements may come and go without an event
}
