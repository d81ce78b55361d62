package config

import (
	"fmt"
	"net/netip"
	"strings"
)

// rangePrefixes returns the prefixes that hold the addresses of a range like
// "192.0.2.10-192.0.2.20", as they stand in a list; nothing if text is no range.
func rangePrefixes(text string) string {
	before, behind, _ := strings.Cut(text, "-")
	from, err := netip.ParseAddr(strings.TrimSpace(before))
	if err != nil {
		return ""
	}
	to, err := netip.ParseAddr(strings.TrimSpace(behind))
	if err != nil || from.BitLen() != to.BitLen() || to.Less(from) {
		return ""
	}
	var list []string
	for from.IsValid() && !to.Less(from) {
		p := netip.PrefixFrom(from, from.BitLen())
		for p.Bits() > 0 {
			wider := netip.PrefixFrom(from, p.Bits()-1)
			if wider.Masked().Addr() != from || to.Less(last(wider)) {
				break
			}
			p = wider
		}
		list = append(list, fmt.Sprintf("%q", p))
		from = last(p).Next()
	}
	return strings.Join(list, ", ")
}

// last returns the highest address of a prefix.
func last(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for bit := p.Bits(); bit < len(b)*8; bit++ {
		b[bit/8] |= 0x80 >> (bit % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}
