package translate

import (
	"net/netip"

	"weft/internal/state"
	"weft/wire/checksum"
)

// Config says how packets are translated. It is only read, so any number of
// goroutines may use it as long as Identification allows it.
type Config struct {
	Table *Table // must be there

	// Prefixes are the RFC 6052 prefixes of a stateful translator that has
	// several; the table's is the one of connections from IPv4.
	Prefixes []netip.Prefix

	// Translatable are the IPv4 prefixes of IPv6 nodes whose addresses are made
	// of the table's prefix (IPv4-translatable addresses, RFC 6052 section 2).
	// With the mappings they are the IPv4 destinations that Translate4 accepts.
	Translatable []netip.Prefix

	LowestIPv6MTU  int  // bytes; RFC 7915 section 4; 0 stands for 1280
	MTU4, MTU6     int  // bytes, of the links to either side; 0 is not known: no limit
	ComputeUDPZero bool // compute missing UDP checksums (RFC 7915 section 4.5), else drop
	CopyTOS        bool // copy traffic class and TOS, else they become zero
	ClampMSS       bool // lower the MSS option of TCP SYNs to what both links carry
	MaxMSS         int  // bytes, to clamp to; 0: by the MTUs
	DecrementTTL   bool // false where a router behind or before does it
	RestoreTTL     bool // a router has counted the TTL of IPv4 packets down: quote them as they came
	Recut          bool // IPv6 packets were put together from fragments, and may be cut again
	GlobalOnly     bool // drop 64:ff9b::/96 with an IPv4 address that is not global (RFC 6052 section 3.1)

	// ErrorSource4 sources ICMPv4 errors whose IPv6 source has no translation
	// (RFC 6791); empty leaves it to Router4.
	ErrorSource4 []netip.Addr

	// Router4 and Router6 source the errors that the translator itself sends.
	// Without one there are none in that family.
	Router4, Router6 netip.Addr

	// Identification gives the next value for IPv4 headers (the low 16 bits);
	// nil stands for zero always.
	Identification func() uint32
}

// Result is what became of a packet. The slices share nothing with the packet.
type Result struct {
	Outcome state.Outcome
	Out     [][]byte // translated packets, several when fragmented; nil unless Outcome forwards
	Reply   []byte   // ICMP error for the sender, in the family the packet came in; nil if none
}

const (
	minMTU6    = 1280  // RFC 8200 section 5
	minMTU4    = 68    // RFC 791 section 3.2
	maxPacket4 = 65535 // total length is 16 bits
	maxError6  = 1280  // RFC 4443 section 2.4 (c)
	maxError4  = 576   // RFC 1812 section 4.3.2.3
	tooSmallDF = 1260  // up to this size IPv4 routers may fragment (RFC 7915 section 5)
)

// lowestMTU6 is the largest IPv6 packet that is sent without the consent of
// the IPv4 sender, that is, when DF is clear (RFC 7915 section 4.1).
func (c *Config) lowestMTU6() int {
	lowest := max(c.LowestIPv6MTU, minMTU6)
	if c.MTU6 != 0 {
		lowest = min(lowest, max(c.MTU6, minMTU6))
	}
	return lowest
}

func (c *Config) limit4() int {
	if c.MTU4 == 0 {
		return maxPacket4
	}
	return min(max(c.MTU4, minMTU4), maxPacket4)
}

// fits6 reports whether the IPv6 link takes a packet of size bytes.
func (c *Config) fits6(size int) bool {
	return c.MTU6 == 0 || size <= max(c.MTU6, minMTU6)
}

func (c *Config) tos(b byte) byte {
	if c.CopyTOS {
		return b
	}
	return 0
}

func (c *Config) identification() uint16 {
	if c.Identification == nil {
		return 0
	}
	return uint16(c.Identification())
}

// node4 reports whether v4 stands for an IPv6 node.
func (c *Config) node4(v4 netip.Addr) bool {
	if m, ok := c.Table.by4.find(v4); ok {
		return !m.IPv4Nodes
	}
	return c.translatable(v4)
}

// node6 reports whether v6 is the address of an IPv6 node that has an IPv4
// address, and not the IPv6 form of an IPv4 node.
func (c *Config) node6(v6 netip.Addr) bool {
	if m, ok := c.Table.by6.find(v6); ok {
		return !m.IPv4Nodes
	}
	v4, ok := Extract(c.Table.prefix, v6)
	return ok && c.translatable(v4)
}

func (c *Config) translatable(v4 netip.Addr) bool {
	for _, p := range c.Translatable {
		if p.Contains(v4) {
			return true
		}
	}
	return false
}

func (c *Config) forbidden(v6, v4 netip.Addr) bool {
	return c.GlobalOnly && c.Table.forbidden(v6, v4)
}

// errorSource4 selects the source of an ICMPv4 error whose IPv6 source v6 has no
// translation: always the same one for the same v6, so that the hops of a traceroute
// are distinguishable (RFC 6791 section 3).
func (c *Config) errorSource4(v6 netip.Addr) (netip.Addr, bool) {
	if len(c.ErrorSource4) == 0 {
		return c.Router4, c.Router4.Is4()
	}
	b := v6.As16()
	return c.ErrorSource4[checksum.Sum(b[:], 0)%uint32(len(c.ErrorSource4))], true
}

func drop(o state.Outcome) Result { return Result{Outcome: o} }
