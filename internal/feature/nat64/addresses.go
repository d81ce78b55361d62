package nat64

import "net/netip"

// special is a block of addresses with a reason.
type special struct {
	block netip.Prefix
	why   string
}

// never4 lists the IPv4 blocks that no node on a network can have
// (RFC 6890 section 2.2.2, RFC 5771).
func never4() []special {
	return []special{
		{netip.MustParsePrefix("0.0.0.0/8"), "\"this network\" (RFC 1122)"},
		{netip.MustParsePrefix("127.0.0.0/8"), "loopback (RFC 1122)"},
		{netip.MustParsePrefix("169.254.0.0/16"), "link-local (RFC 3927)"},
		{netip.MustParsePrefix("224.0.0.0/4"), "multicast (RFC 5771)"},
		{netip.MustParsePrefix("240.0.0.0/4"), "reserved or broadcast (RFC 1112)"},
	}
}

// private4 lists the further blocks that are not global, and so must not be
// put under the well-known prefix (RFC 6052 section 3.1; RFC 5735 section 3 and
// its successor RFC 6890).
func private4() []special {
	return []special{
		{netip.MustParsePrefix("10.0.0.0/8"), "private (RFC 1918)"},
		{netip.MustParsePrefix("100.64.0.0/10"), "shared (RFC 6598)"},
		{netip.MustParsePrefix("172.16.0.0/12"), "private (RFC 1918)"},
		{netip.MustParsePrefix("192.0.0.0/24"), "for protocols (RFC 6890)"},
		{netip.MustParsePrefix("192.0.2.0/24"), "for documentation (RFC 5737)"},
		{netip.MustParsePrefix("192.88.99.0/24"), "for 6to4 relays (RFC 7526)"},
		{netip.MustParsePrefix("192.168.0.0/16"), "private (RFC 1918)"},
		{netip.MustParsePrefix("198.18.0.0/15"), "for benchmarks (RFC 2544)"},
		{netip.MustParsePrefix("198.51.100.0/24"), "for documentation (RFC 5737)"},
		{netip.MustParsePrefix("203.0.113.0/24"), "for documentation (RFC 5737)"},
	}
}

// never6 lists the IPv6 blocks that no node of a routed network can have
// (RFC 4291 section 2.4).
func never6() []special {
	return []special{
		{netip.MustParsePrefix("::/96"), "unspecified, loopback or IPv4-compatible (RFC 4291)"},
		{netip.MustParsePrefix("fe80::/10"), "link-local (RFC 4291)"},
		{netip.MustParsePrefix("ff00::/8"), "multicast (RFC 4291)"},
	}
}

// find gives why p must not be used: the reason of a block that p overlaps.
func find(p netip.Prefix, blocks []special) (why string, bad bool) {
	for _, b := range blocks {
		switch {
		case !b.block.Overlaps(p):
		case b.block.Bits() <= p.Bits():
			return b.why, true
		default:
			return "wide enough to hold " + b.block.String() + ", which is " + b.why, true
		}
	}
	return "", false
}

func unusable4(p netip.Prefix) (why string, bad bool) { return find(p, never4()) }
func unusable6(p netip.Prefix) (why string, bad bool) { return find(p, never6()) }
func nonGlobal(p netip.Prefix) (why string, bad bool) { return find(p, private4()) }

// wellKnown is the Well-Known Prefix (RFC 6052 section 2.1).
func wellKnown() netip.Prefix { return netip.MustParsePrefix("64:ff9b::/96") }

// legalLength reports whether n is a prefix length of RFC 6052 section 2.2.
func legalLength(n int) bool {
	switch n {
	case 32, 40, 48, 56, 64, 96:
		return true
	}
	return false
}

// TranslatableIn returns the IPv4 prefix that the nodes of an IPv6 subnet have
// when the subnet lies under an RFC 6052 prefix: those of the 32 embedded bits
// that the subnet's length fixes. There is none if the subnet fixes none of
// them, or fixes bits 64 to 71 or those behind the IPv4 address to other than
// zero (section 2.2), or if no node can have such an IPv4 address.
func TranslatableIn(prefix, subnet netip.Prefix) (netip.Prefix, bool) {
	if !prefix.IsValid() || !subnet.IsValid() || !legalLength(prefix.Bits()) || !within(subnet.Masked(), prefix) {
		return netip.Prefix{}, false
	}
	bytes := subnet.Masked().Addr().As16()
	var v4 [4]byte
	fixed, at := 0, prefix.Bits()/8
	for i := range v4 {
		if at == 8 {
			at++ // the octet u
		}
		v4[i] = bytes[at]
		fixed += min(max(subnet.Bits()-8*at, 0), 8)
		at++
	}
	if prefix.Bits() < 96 && bytes[8] != 0 {
		return netip.Prefix{}, false
	}
	for ; at < 16; at++ {
		if bytes[at] != 0 {
			return netip.Prefix{}, false
		}
	}
	p := netip.PrefixFrom(netip.AddrFrom4(v4), fixed)
	if _, bad := unusable4(p); bad || fixed == 0 {
		return netip.Prefix{}, false
	}
	return p, true
}

// within reports whether every address of inner is one of outer.
func within(inner, outer netip.Prefix) bool {
	return outer.Bits() <= inner.Bits() && outer.Overlaps(inner)
}

// image returns the part of m's IPv6 prefix that the addresses of inner, a part
// of m's IPv4 prefix, are translated to: the IPv4 suffix follows the IPv6
// prefix at once (RFC 7757 section 3.3.1).
func (m Mapping) image(inner netip.Prefix) netip.Prefix {
	to, from := m.IPv6.Addr().As16(), inner.Addr().As4()
	shift := m.IPv6.Bits() - m.IPv4.Bits()
	for i := m.IPv4.Bits(); i < inner.Bits(); i++ {
		if from[i/8]>>(7-i%8)&1 == 1 {
			to[(i+shift)/8] |= 1 << (7 - (i+shift)%8)
		}
	}
	return netip.PrefixFrom(netip.AddrFrom16(to), inner.Bits()+shift)
}

// reaches reports whether m translates any IPv4 address into inner, a part of
// m's IPv6 prefix: the bits behind the IPv4 suffix are zero (RFC 7757 section
// 3.3.1), and so must inner's be.
func (m Mapping) reaches(inner netip.Prefix) bool {
	end := m.IPv6.Bits() + 32 - m.IPv4.Bits()
	bytes := inner.Addr().As16()
	for i := end; i < inner.Bits(); i++ {
		if bytes[i/8]>>(7-i%8)&1 == 1 {
			return false
		}
	}
	return true
}
