package translate

import "net/netip"

// WellKnownPrefix is 64:ff9b::/96 (RFC 6052 section 2.1).
func WellKnownPrefix() netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom16([16]byte{0: 0x00, 1: 0x64, 2: 0xff, 3: 0x9b}), 96)
}

// embedAt returns the first byte of the IPv4 address inside the IPv6 address,
// and whether the length is one of those of RFC 6052 section 2.2.
func embedAt(prefixBits int) (int, bool) {
	switch prefixBits {
	case 32, 40, 48, 56, 96:
		return prefixBits / 8, true
	case 64:
		return 9, true // after the u octet
	}
	return 0, false
}

// uOctet is byte 8, bits 64 to 71, which is zero in every form but the /96,
// where it belongs to the prefix (RFC 6052 section 2.2).
const uOctet = 8

// Embed writes v4 into prefix as RFC 6052 section 2.2 lays down: u octet and
// suffix zero. The zero Addr comes back if the prefix has none of the lengths
// 32, 40, 48, 56, 64, 96 or v4 is not an IPv4 address.
func Embed(prefix netip.Prefix, v4 netip.Addr) netip.Addr {
	at, ok := embedAt(prefix.Bits())
	v4 = v4.Unmap()
	if !ok || !prefix.Addr().Is6() || !v4.Is4() {
		return netip.Addr{}
	}
	out := prefix.Masked().Addr().As16()
	for _, b := range v4.As4() {
		if at == uOctet {
			at++
		}
		out[at] = b
		at++
	}
	return netip.AddrFrom16(out)
}

// Extract is the inverse of Embed. It refuses an address outside prefix and
// one whose u octet is not zero; the suffix is ignored (RFC 6052 section 2.2).
func Extract(prefix netip.Prefix, v6 netip.Addr) (netip.Addr, bool) {
	at, ok := embedAt(prefix.Bits())
	if !ok || !v6.Is6() || !prefix.Addr().Is6() || !prefix.Contains(v6) {
		return netip.Addr{}, false
	}
	in := v6.As16()
	if prefix.Bits() != 96 && in[uOctet] != 0 {
		return netip.Addr{}, false
	}
	var v4 [4]byte
	for i := range v4 {
		if at == uOctet {
			at++
		}
		v4[i] = in[at]
		at++
	}
	return netip.AddrFrom4(v4), true
}
