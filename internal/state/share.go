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

// OwnersMax is how many other routers there can be numbers for.
const OwnersMax = 32

// AdoptWant is what another router asks for; values as in bpf/nat64_adopt.bpf.c.
type AdoptWant uint8

const (
	AdoptPut  AdoptWant = 1 // it has the session
	AdoptLend AdoptWant = 2 // it was told of it itself
	AdoptEnd  AdoptWant = 3 // it is over
	AdoptMark AdoptWant = 4 // as AdoptLend, but not to be made if it is not there
)

// AdoptResult is what came of it; values as in bpf/nat64_adopt.bpf.c.
type AdoptResult uint8

const (
	AdoptMade AdoptResult = iota
	AdoptRenewed
	AdoptEnded
	AdoptKept     // this router knew better, or there was nothing to do
	AdoptConflict // the port stands for another node here
	AdoptRefused  // no room, or not shared
	AdoptAgain    // disturbed by another CPU
	AdoptResults
)

// Adoption is a session that another router tells of.
type Adoption struct {
	Shared
	Want  AdoptWant
	Owner uint8 // that router's number
	Round bool
}
