package translate

import "weft/wire/checksum"

import "net/netip"

// pair holds the two addresses of a packet in both families.
type pair struct{ src6, dst6, src4, dst4 netip.Addr }

func (p pair) sum6() uint32 {
	src, dst := p.src6.As16(), p.dst6.As16()
	return checksum.Sum(src[:], checksum.Sum(dst[:], 0))
}

func (p pair) sum4() uint32 {
	src, dst := p.src4.As4(), p.dst4.As4()
	return checksum.Sum(src[:], checksum.Sum(dst[:], 0))
}

// illegal4 reports whether no packet on the wire may carry a as the address of
// one host: 0/8, 127/8, 224/4, 240/4 (RFC 1812 section 5.3.7, RFC 1122
// section 3.2.1.3).
func illegal4(a netip.Addr) bool {
	b := a.As4()
	return b[0] == 0 || b[0] == 127 || b[0] >= 224
}

// illegalSource6 reports whether a packet that is to be forwarded may not come
// from a: unspecified, loopback, multicast (RFC 4291 sections 2.5.2, 2.5.3,
// 2.7) or link-local (section 2.5.6).
func illegalSource6(a netip.Addr) bool {
	return a.IsUnspecified() || a == netip.IPv6Loopback() || linkScope6(a)
}

// linkScope6 tells ff00::/8 and fe80::/10 from the rest. It does not look into
// IPv4-mapped addresses, as netip's own predicates do.
func linkScope6(a netip.Addr) bool {
	b := a.As16()
	return b[0] == 0xff || b[0] == 0xfe && b[1]&0xc0 == 0x80
}

// linkScope4 tells 224/4, 255.255.255.255 and 169.254/16 from the rest.
func linkScope4(a netip.Addr) bool {
	b := a.As4()
	return b[0]&0xf0 == 0xe0 || b == [4]byte{255, 255, 255, 255} || b[0] == 169 && b[1] == 254
}

// forbidden reports whether v6 is made of the well-known prefix and an IPv4
// address that is not global: translators must drop such packets (RFC 6052
// section 3.1). It does not matter under a prefix of one's own.
func (t *Table) forbidden(v6, v4 netip.Addr) bool {
	return t.prefix == WellKnownPrefix() && t.prefix.Contains(v6) && !global4(v4)
}

// global4 reports whether v4 is none of the addresses that IANA's special
// purpose registry (RFC 6890) calls not global.
func global4(v4 netip.Addr) bool {
	b := v4.As4()
	switch b[0] {
	case 0, 10, 127:
		return false
	case 100:
		return b[1]&0xc0 != 64 // RFC 6598
	case 169:
		return b[1] != 254
	case 172:
		return b[1]&0xf0 != 16
	case 192:
		return !(b[1] == 168 || b[1] == 0 && (b[2] == 0 || b[2] == 2) || b[1] == 88 && b[2] == 99)
	case 198:
		return !(b[1]&0xfe == 18 || b[1] == 51 && b[2] == 100)
	case 203:
		return !(b[1] == 0 && b[2] == 113)
	}
	return b[0] < 224
}
