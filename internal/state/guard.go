package state

import (
	"fmt"
	"net/netip"
	"strings"
)

// ReversePath is the mode of the reverse-path check (RFC 2827, RFC 3704).
type ReversePath uint8

const (
	ReverseOff    ReversePath = iota
	ReverseLoose              // those without any route
	ReverseStrict             // those whose route leads by another interface, too
)

func (r ReversePath) String() string { return [...]string{"off", "loose", "strict"}[r] }

// GuardRate is a rate in packets a second, and a burst. Zero is no limit.
type GuardRate struct {
	PerSecond int
	Burst     int
}

// Guard is the ingress filter of an interface.
type Guard struct {
	Device  string
	Bogons  bool
	Reverse ReversePath
	XDP     bool // the XDP program of its devices looks, not the one behind it
	Rates   [GuardRates]GuardRate
}

func (g Guard) Key() string    { return "guard " + g.Device }
func (g Guard) Domain() Domain { return Datapath }
func (g Guard) String() string {
	s := fmt.Sprintf("guard %s bogons %v reverse-path %s", g.Device, g.Bogons, g.Reverse)
	for i, name := range [GuardRates]string{"syn-per-source", "syn", "icmp-per-source", "icmp"} {
		if r := g.Rates[i]; r.PerSecond > 0 {
			s += fmt.Sprintf(" %s %d/s burst %d", name, r.PerSecond, r.Burst)
		}
	}
	if g.XDP {
		s += " in xdp"
	}
	return s
}

// On and AtHook are those of Hooked.
func (g Guard) On() string { return g.Device }

func (g Guard) AtHook(xdp bool) Object {
	g.XDP = xdp
	return g
}

// Listed are the flags of a prefix on the guard's list. None: an exception from the
// prefix around it.
type Listed uint32

func (l Listed) String() string {
	var names []string
	if l&ListedBlocked != 0 {
		names = append(names, "blocked")
	}
	if l&ListedBogon != 0 {
		names = append(names, "bogon")
	}
	if len(names) == 0 {
		return "allowed"
	}
	return strings.Join(names, ", ")
}

// GuardEntry is one prefix of the guard's list.
type GuardEntry struct {
	Prefix netip.Prefix
	Listed Listed
}
