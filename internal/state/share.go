package state

import (
	"net/netip"
	"time"
)

// Shared is a session of a stateful translator as it is replicated to other routers,
// with its binding.
type Shared struct {
	Translator int
	Protocol   uint8 // of IPv4
	State      SessionState
	IPv6, IPv4 netip.AddrPort // the node, and what stands for it
	Remote6    netip.Addr     // the far end as the node knows it
	Remote4    netip.AddrPort
	Left, Age  time.Duration // until it ends without a packet; since it was made
}

// SessionChange is an event of a session of this router's own.
type SessionChange struct {
	Shared
	Ended bool
}

// ListedSession is a session in a dump.
type ListedSession struct {
	Shared
	Remote bool  // advertised by another router, and no packet has arrived here since
	Owner  uint8 // that router's number
	Round  bool  // of its listing
}

// ImportWant is the operation that another router requests.
type ImportWant uint8

// ImportResult is its result.
type ImportResult uint8

// Adoption is a session that another router advertises.
type Import struct {
	Shared
	Want  ImportWant
	Owner uint8 // that router's number
	Round bool
}
