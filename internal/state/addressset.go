package state

import "net/netip"

// AddressSet is what a set of nftables holds.
type AddressSet struct {
	Prefixes []netip.Prefix
	Silent   bool // elements come or go without a word
}
