package aaa

import (
	"fmt"
	"net/netip"

	"layeh.com/radius"
)

// prefix6 reads an attribute with an IPv6 prefix (RFC 3162 section 2.3, RFC 4818 section
// 3). Bits behind the length are ignored, as the RFC says they should be zero; where an
// attribute occurs more than once, the first valid one counts. What is not used becomes a
// remark.
func prefix6(p *radius.Packet, kind radius.Type, name string) (out netip.Prefix, remarks []string) {
	for _, a := range p.Attributes {
		if a.Type != kind {
			continue
		}
		read, masked, err := readPrefix6(a.Attribute)
		switch {
		case err != nil:
			remarks = append(remarks, fmt.Sprintf("%s: %v: it is ignored", name, err))
		case out.IsValid():
			remarks = append(remarks, fmt.Sprintf("%s %s is ignored: a session has one, %s", name, read, out))
		default:
			out = read
			if masked {
				remarks = append(remarks, fmt.Sprintf("%s has bits behind its length: it is taken as %s", name, read))
			}
		}
	}
	return out, remarks
}

// readPrefix6 reads a reserved octet, a length in bits and up to 16 octets of address.
func readPrefix6(b []byte) (p netip.Prefix, masked bool, err error) {
	if len(b) < 2 || len(b) > 18 {
		return netip.Prefix{}, false, fmt.Errorf("its length is %d octets, not 2 to 18", len(b))
	}
	bits := int(b[1])
	if bits > 128 || bits == 0 || (bits+7)/8 > len(b)-2 {
		return netip.Prefix{}, false, fmt.Errorf("%d octets of address cannot hold a prefix of %d bits", len(b)-2, bits)
	}
	var a [16]byte
	copy(a[:], b[2:])
	p = netip.PrefixFrom(netip.AddrFrom16(a), bits)
	return p.Masked(), p != p.Masked(), nil
}
