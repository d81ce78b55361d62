package openwrt

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// wide is a prefix out of which interfaces with ip6assign get theirs.
type wide struct {
	prefix netip.Prefix
	class  string // that ip6class names: local, or the interface that has it
	s      *section
	option string
}

// assign gives interfaces with ip6assign their part of prefixes that are in the file, as
// netifd does with delegated ones too.
func (c *converter) assign() {
	var wides []wide
	for _, s := range c.of("network", "globals") {
		s.yes("", "what is for all interfaces")
		if s.has("ula_prefix") {
			wides = c.wide(wides, s, "ula_prefix", s.value("ula_prefix"), "local")
		}
		s.rest(No, "weft has no such setting for all interfaces", "set it by sysctl or your network manager")
	}
	for _, i := range c.ifaces {
		if i.proto == "dhcpv6" {
			continue // there it is a wish
		}
		for _, word := range i.s.words("ip6prefix") {
			wides = c.wide(wides, i.s, "ip6prefix", word, i.name)
		}
	}
	var takers []*iface
	for _, i := range c.ifaces {
		if i.s.has("ip6assign") && c.wants(i) {
			takers = append(takers, i)
		}
	}
	for _, w := range wides {
		c.share(w, takers)
	}
	uplink := c.uplink6()
	for _, i := range takers {
		c.judgeAssigned(i, uplink)
	}
}

func (c *converter) wide(list []wide, s *section, option, text, class string) []wide {
	p, err := netip.ParsePrefix(text)
	if text == "auto" {
		s.no(option, "weft makes up no prefix", "generate a ULA prefix (RFC 4193), and give each interface an address of it")
		return list
	}
	if err != nil || !p.Addr().Is6() || p.Bits() > 64 || p.Bits() < 8 {
		s.item(No, option, text, fmt.Sprintf("%q is no prefix that interfaces can have parts of", printable(text)), "like fd12:3456:789a::/48")
		return list
	}
	s.differs(option, "weft has no pool of prefixes for its own interfaces: each has its part in addresses", "nothing to do, unless you add interfaces")
	return append(list, wide{p.Masked(), class, s, option})
}

// wants reports whether ip6assign is a length.
func (c *converter) wants(i *iface) bool {
	n, err := strconv.Atoi(i.s.value("ip6assign"))
	if err != nil || n < 0 || n > 64 {
		i.s.no("ip6assign", fmt.Sprintf("%q is no length of a prefix", printable(i.s.value("ip6assign"))), "1 to 64")
		return false
	}
	if n == 0 {
		i.s.yes("ip6assign", "no prefix is assigned")
	}
	return n > 0
}

// share gives each of takers a block of w: first those that want a certain one.
func (c *converter) share(w wide, takers []*iface) {
	type want struct {
		i          *iface
		start, end uint64 // in /64s of w
		hinted     bool
	}
	var wants []want
	space := uint64(1) << min(64-w.prefix.Bits(), 62)
	for _, i := range takers {
		if classes := i.s.words("ip6class"); len(classes) > 0 && !slices.Contains(classes, w.class) {
			continue
		}
		n, _ := strconv.Atoi(i.s.value("ip6assign"))
		size := uint64(1) << min(64-max(n, w.prefix.Bits()), 62)
		x := want{i: i, end: size}
		if hint, err := strconv.ParseUint(strings.TrimPrefix(i.s.value("ip6hint"), "0x"), 16, 62); err == nil && i.s.has("ip6hint") {
			x.start = hint &^ (size - 1)
			x.end, x.hinted = x.start+size, x.start+size <= space
		}
		if !x.hinted {
			x.start, x.end = 0, size
		}
		wants = append(wants, x)
	}
	// the large blocks first, so that none is cut up
	slices.SortStableFunc(wants, func(a, b want) int {
		if a.hinted != b.hinted {
			return map[bool]int{true: -1, false: 1}[a.hinted]
		}
		return cmp.Or(map[bool]int{true: cmp.Compare(a.start, b.start)}[a.hinted], cmp.Compare(b.end-b.start, a.end-a.start))
	})
	var fixed [][2]uint64
	next := uint64(0)
	for _, x := range wants {
		size := x.end - x.start
		if !x.hinted {
			for next = aligned(next, size); len(fixed) > 0 && fixed[0][0] < next+size; next = aligned(next, size) {
				next, fixed = max(next, fixed[0][1]), fixed[1:]
			}
			x.start, x.end = next, next+size
			next = x.end
		} else if n := len(fixed); n > 0 && x.start < fixed[n-1][1] {
			x.end = space + 1 // another has it
		}
		if x.end > space {
			c.marks[x.i.s.Options["ip6assign"].Lines[0]] = mark{No, fmt.Sprintf("%s has no room for it", w.prefix), "a longer ip6assign, or another ip6hint"}
			continue
		}
		if x.hinted {
			fixed = append(fixed, [2]uint64{x.start, x.end})
		}
		x.i.blocks = append(x.i.blocks, block(w.prefix, x.start, size))
	}
}

func aligned(n, size uint64) uint64 { return (n + size - 1) &^ (size - 1) }

// block is the part of p that begins at its nth /64 and has size of them.
func block(p netip.Prefix, n, size uint64) netip.Prefix {
	a := p.Addr().As16()
	binary.BigEndian.PutUint64(a[:8], binary.BigEndian.Uint64(a[:8])+n)
	bits := 64
	for ; size > 1; size >>= 1 {
		bits--
	}
	return netip.PrefixFrom(netip.AddrFrom16(a), bits)
}

// judgeAssigned turns the blocks of an interface into addresses, of their first /64.
func (c *converter) judgeAssigned(i *iface, uplink bool) {
	host := netip.MustParseAddr("::1")
	if id := i.s.value("ip6ifaceid"); id != "" {
		a, err := netip.ParseAddr(id)
		b := host.As16()
		if err == nil && a.Is6() && a.Zone() == "" {
			b = a.As16()
		}
		if err != nil || binary.BigEndian.Uint64(b[:8]) != 0 || binary.BigEndian.Uint64(b[8:]) == 0 {
			i.s.differs("ip6ifaceid", "the interface identifier is ::1 here", "write another address in [interface.NAME] addresses")
		} else {
			host = a
			i.s.yes("ip6ifaceid", "the end of the address")
		}
	}
	for _, b := range i.blocks {
		a, h := b.Addr().As16(), host.As16()
		copy(a[8:], h[8:])
		i.addresses = append(i.addresses, given{netip.PrefixFrom(netip.AddrFrom16(a), 64), i.s, "ip6assign"})
	}
	switch n, _ := strconv.Atoi(i.s.value("ip6assign")); {
	case i.s.judged("ip6assign"):
	case len(i.blocks) == 0:
		i.s.no("ip6assign", "weft takes prefixes for its interfaces from [l2tp_client.NAME] only, not from another uplink", "let the DHCPv6 client of the uplink give the interface a /64; [ra.NAME] advertises what it has")
	case uplink:
		i.s.differs("ip6assign", fmt.Sprintf("the address %s is in the file; prefixes of the uplink are not assigned", i.addresses[len(i.addresses)-1].prefix), "let the DHCPv6 client of the uplink give the interface a /64; [ra.NAME] advertises what it has")
	case n < 64:
		i.s.differs("ip6assign", fmt.Sprintf("the link has %s, the first /64 of its /%d", i.addresses[len(i.addresses)-1].prefix.Masked(), n), "nothing to do; [ra.NAME] delegate may have the rest")
	}
	for _, option := range []string{"ip6hint", "ip6class"} {
		i.s.yes(option, "which part it is")
	}
}

// uplink6 reports whether a prefix may come from an uplink.
func (c *converter) uplink6() bool {
	return slices.ContainsFunc(c.ifaces, func(i *iface) bool { return i.proto == "dhcpv6" || i.proto == "6rd" || i.proto == "6to4" })
}
