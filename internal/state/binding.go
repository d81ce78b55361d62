package state

import (
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// Tables are the numbers of entries in the tables of stateful translation and of
// subscribers, and other load-time choices of the programs.
type Tables struct {
	Bindings    int
	Sessions    int
	Flows       int // offloaded, of each family
	Subscribers int // local ids of tunnels and of sessions are less
	Switch      SwitchFormat
	Unused      Roles // code for these is left out
}

// Roles are what an interface is for, a bit each.
type Roles uint32

// Has reports whether all of these are among them.
func (r Roles) Has(these Roles) bool { return r&these == these }

// With gives them with these or, if not on, without.
func (r Roles) With(these Roles, on bool) Roles {
	if on {
		return r | these
	}
	return r &^ these
}

// SwitchFormat is the format of a switch's tags (DSA). Programs are loaded for one.
type SwitchFormat uint32

func (f SwitchFormat) String() string {
	names := [...]string{"none", "mtk", "qca", "gswip"}
	return names[min(int(f), len(names)-1)]
}

// Filtering selects the packets from outside that a binding accepts (RFC 4787
// section 5).
type Filtering uint8

func (f Filtering) String() string {
	names := [...]string{"endpoint-independent", "address-dependent", "address-and-port-dependent"}
	return names[min(int(f), len(names)-1)]
}

// Pool is IPv4 addresses that nodes share, and the ports that may be used.
type Pool struct {
	Prefix    netip.Prefix
	Low, High uint16
}

// Binder is how a stateful translator makes bindings and sessions (RFC 6146).
type Allocator struct {
	ID                                 int // of the translator
	UDP, ICMP, Established, Transitory time.Duration
	Filtering                          Filtering
	PortsMax, SessionsMax              int // of one subscriber; 0: no limit
	SubscriberBits                     int
	Block                              int // ports of a subscriber, always the same (RFC 7422); 0: any port
	Subscribers                        netip.Prefix
	Statics                            bool // there are static bindings
	Events                             bool // events of bindings that are made and end
	Shared                             bool // events of its sessions for other routers
	Pools                              [PoolsMax]Pool
}

func (b Allocator) Key() string    { return fmt.Sprintf("nat-allocator %d", b.ID) }
func (b Allocator) Domain() Domain { return Datapath }
func (b Allocator) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "nat-allocator %d %s udp %s icmp %s established %s transitory %s subscriber /%d ports-max %d sessions-max %d",
		b.ID, b.Filtering, b.UDP, b.ICMP, b.Established, b.Transitory, b.SubscriberBits, b.PortsMax, b.SessionsMax)
	if b.Block != 0 {
		fmt.Fprintf(&s, " block %d of %s", b.Block, b.Subscribers)
	}
	if b.Statics {
		s.WriteString(" statics")
	}
	if b.Events {
		s.WriteString(" events")
	}
	if b.Shared {
		s.WriteString(" shared")
	}
	for _, p := range b.Pools {
		if p.Prefix.IsValid() {
			fmt.Fprintf(&s, " pool %s:%d-%d", p.Prefix, p.Low, p.High)
		}
	}
	return s.String()
}

// StaticBinding binds a port of a pool to one node permanently.
type StaticBinding struct {
	Translator int
	Protocol   uint8 // of IPv4: 1, 6 or 17
	IPv6, IPv4 netip.AddrPort
}

func (b StaticBinding) Key() string {
	return fmt.Sprintf("static %d %s translator %d", b.Protocol, b.IPv6, b.Translator)
}
func (b StaticBinding) Domain() Domain { return Datapath }
func (b StaticBinding) String() string {
	return fmt.Sprintf("static protocol %d %s -> %s translator %d", b.Protocol, b.IPv6, b.IPv4, b.Translator)
}

// Tuple is what the state of a stateful translator needs of a packet. The
// protocol is IPv4's. For an echo both ports are the identifier, and Flags is
// 1 for a request; for TCP they are the flags.
type Tuple struct {
	Protocol uint8
	From, To netip.AddrPort
	Flags    uint8
}

// SessionState is that of a session (RFC 6146 section 3.5.2.1). UDP and ICMP have SessionActive alone.
type SessionState uint8

func (s SessionState) String() string {
	names := [...]string{"active", "v4-init", "v6-init", "established", "v4-fin", "v6-fin", "both-fin", "trans", "ending"}
	return names[min(int(s), len(names)-1)]
}

// ProtocolName returns the name of an IPv4 protocol that can be bound.
func ProtocolName(number uint8) string {
	switch number {
	case 1:
		return "icmp"
	case 6:
		return "tcp"
	case 17:
		return "udp"
	}
	return fmt.Sprint(number)
}

// BindingEvent is a binding that was made or has ended.
type BindingEvent struct {
	Made       bool // else: ended
	Translator int
	Protocol   uint8
	IPv6, IPv4 netip.AddrPort
	At         time.Time
	Since      time.Time // when the binding was made
}
