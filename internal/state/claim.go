package state

import "net/netip"

// Claim is address space that a section of weft.toml uses, or blocks. The planner
// compares the claims of all features with each other and with the host's networks.
type Claim struct {
	Prefix  netip.Prefix
	For     ClaimKind
	Section string // as in nat64.main; what overlaps within one is its own matter
	Device  string // ClaimBlocked and ClaimExcepted: where sources are refused; ClaimOwn: which has the address
	Except  string // ClaimBlocked: the key whose prefixes are not refused
	Path    string
	Pos     Position
}

// ClaimKind is the use of a claimed prefix.
type ClaimKind uint8

const (
	ClaimTranslated ClaimKind = iota // a translator answers for it
	ClaimGiven                       // given out to subscribers, or delegated
	ClaimGateway                     // the router's own address among what is given out
	ClaimRouted                      // only routed to a device of weft's
	ClaimBlocked                     // sources that are dropped
	ClaimExcepted                    // sources that are not, in spite of ClaimBlocked
	ClaimOwn                         // an address that Device has by the file, whether it is there or not, and the network there
	ClaimPeer                        // the remote end of a feature, whose packets must arrive
)

// ClaimList is many claims that differ by their prefixes: a block list may have a million.
type ClaimList struct {
	Each     Claim
	Prefixes []netip.Prefix
}
