package state

import (
	"net/netip"
	"time"
)

// Shared is a session of a stateful translator as routers tell each other of
// it: its binding is in it.
type Shared struct {
	Translator int
	Protocol   uint8 // of IPv4
	State      SessionState
	IPv6, IPv4 netip.AddrPort // the node, and what stands for it
	Remote6    netip.Addr     // the far end as the node knows it
	Remote4    netip.AddrPort
	Left, Age  time.Duration // until it ends without a packet; since it was made
}

// SessionChange is what became of a session of this router's own.
type SessionChange struct {
	Shared
	Ended bool
}

// ListedSession is a session in a listing of all.
type ListedSession struct {
	Shared
	Remote bool  // told by another router, and no packet has come here since
	Owner  uint8 // that router's number
	Round  bool  // of its listing
}

// AdoptWant is what another router asks for.
type AdoptWant uint8

// AdoptResult is what came of it.
type AdoptResult uint8

// Adoption is a session that another router tells of.
type Adoption struct {
	Shared
	Want  AdoptWant
	Owner uint8 // that router's number
	Round bool
}
