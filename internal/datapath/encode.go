package datapath

import (
	"encoding/binary"
	"net/netip"
	"strings"

	"weft/internal/state"
)

// Short names for the types that bpf2go made from BTF.
type (
	portValue  = ingressTCInterface
	key4       = ingressTCNat64Key4
	key6       = ingressTCNat64Key6
	rule4      = ingressTCNat64Rule4
	rule6      = ingressTCNat64Rule6
	translator = ingressTCNat64Translator
	volume     = ingressTCNat64Volume
	proxyKey   = ingressTCProxyKey
	lowerKey   = ingressTCLowerKey
	neighbour  = ingressTCNeighbour
)

// wire32 holds an IPv4 address as the programs do: in wire order.
func wire32(a netip.Addr) uint32 {
	b := a.As4()
	return binary.NativeEndian.Uint32(b[:])
}

func addr4(wire uint32) netip.Addr {
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], wire)
	return netip.AddrFrom4(b)
}

func host32(a netip.Addr) uint32 {
	b := a.As4()
	return binary.BigEndian.Uint32(b[:])
}

func addrOfHost32(v uint32) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], v)
	return netip.AddrFrom4(b)
}

// suffixFrom is the bit at which the shared suffix starts in the IPv6 address,
// counted without the u octet where that is passed over.
func suffixFrom(ipv6 netip.Prefix, uOctet bool) uint8 {
	bits := ipv6.Bits()
	if uOctet && bits > 64 {
		bits -= 8
	}
	return uint8(bits)
}

func bit(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

func encodeRule6(r state.Rule) (key6, rule6) {
	k := key6{Prefixlen: uint32(r.From.Bits())}
	k.Addr.U8 = r.From.Addr().As16()
	v := rule6{Translator: uint32(r.Translator), Base4: host32(r.To.Addr())}
	v.Suffix.From = suffixFrom(r.From, r.UOctet)
	v.Suffix.Bits = uint8(32 - r.To.Bits())
	v.Suffix.U_octet = bit(r.UOctet)
	v.Suffix.Kind = uint8(r.Kind)
	return k, v
}

func decodeRule6(k key6, v rule6) state.Rule {
	return state.Rule{
		From:       netip.PrefixFrom(netip.AddrFrom16(k.Addr.U8), int(k.Prefixlen)),
		To:         netip.PrefixFrom(addrOfHost32(v.Base4), 32-int(v.Suffix.Bits)),
		Kind:       state.RuleKind(v.Suffix.Kind),
		UOctet:     v.Suffix.U_octet != 0,
		Translator: int(v.Translator),
	}
}

func encodeRule4(r state.Rule) (key4, rule4) {
	k := key4{Prefixlen: uint32(r.From.Bits()), Addr: wire32(r.From.Addr())}
	v := rule4{Translator: uint32(r.Translator)}
	v.Base6.U8 = r.To.Addr().As16()
	v.Suffix.From = suffixFrom(r.To, r.UOctet)
	v.Suffix.Bits = uint8(32 - r.From.Bits())
	v.Suffix.U_octet = bit(r.UOctet)
	v.Suffix.Kind = uint8(r.Kind)
	return k, v
}

func decodeRule4(k key4, v rule4) state.Rule {
	return state.Rule{
		From:       netip.PrefixFrom(addr4(k.Addr), int(k.Prefixlen)),
		To:         netip.PrefixFrom(netip.AddrFrom16(v.Base6.U8), bitsOfSuffix(v.Suffix.From, v.Suffix.U_octet != 0)),
		Kind:       state.RuleKind(v.Suffix.Kind),
		UOctet:     v.Suffix.U_octet != 0,
		Translator: int(v.Translator),
	}
}

// bitsOfSuffix is the reverse of suffixFrom. A suffix that starts at bit 64
// belongs to a prefix of 64 bits.
func bitsOfSuffix(from uint8, uOctet bool) int {
	if uOctet && from > 64 {
		return int(from) + 8
	}
	return int(from)
}

func encodePort(p state.Port) portValue {
	return portValue{Translators: p.Translators, Mac: p.MAC, Table: uint16(p.Table), Flags: uint32(p.Roles)}
}

func decodePort(index int, v portValue) state.Port {
	return state.Port{
		Device: deviceName(index), MAC: v.Mac, Translators: v.Translators,
		Roles: state.Roles(v.Flags), Table: int(v.Table),
	}
}

func encodeTranslator(t state.Translator, index int) translator {
	v := translator{
		Ifindex: uint32(index), Mac: t.MAC,
		MaxMss: uint16(t.MaxMSS), LowestMtu: uint32(t.LowestMTU), SmallestMtu: uint32(t.SmallestMTU),
	}
	for i := 0; i < len(t.Name) && i < len(v.Name)-1; i++ {
		v.Name[i] = int8(t.Name[i])
	}
	if t.UDPZero {
		v.Flags |= nat64ComputeUDP
	}
	if t.CopyTOS {
		v.Flags |= nat64CopyTOS
	}
	if t.Stateful {
		v.Flags |= nat64Stateful
	}
	if t.Counts {
		v.Flags |= nat64Counts
	}
	if t.Prefix.IsValid() {
		v.Flags |= nat64HasPrefix
		_, v.Prefix = encodeRule4(state.Rule{
			From: netip.PrefixFrom(netip.IPv4Unspecified(), 0), To: t.Prefix,
			Kind: state.RulePrefix, UOctet: t.Prefix.Bits() <= 64, Translator: t.ID,
		})
	}
	return v
}

func decodeTranslator(id int, v translator) state.Translator {
	var name strings.Builder
	for _, c := range v.Name {
		if c == 0 {
			break
		}
		name.WriteByte(byte(c))
	}
	t := state.Translator{
		ID: id, Name: name.String(), Device: deviceName(int(v.Ifindex)), MAC: v.Mac,
		LowestMTU: int(v.LowestMtu), SmallestMTU: int(v.SmallestMtu), MaxMSS: int(v.MaxMss),
		UDPZero: v.Flags&nat64ComputeUDP != 0, CopyTOS: v.Flags&nat64CopyTOS != 0,
		Stateful: v.Flags&nat64Stateful != 0, Counts: v.Flags&nat64Counts != 0,
	}
	if v.Flags&nat64HasPrefix != 0 {
		t.Prefix = decodeRule4(key4{}, v.Prefix).To
	}
	return t
}

func encodeProxy(p state.Proxy, index int) proxyKey {
	k := proxyKey{Ifindex: htonl(uint32(index))}
	addr, bits := p.Prefix.Addr(), p.Prefix.Bits()
	k.Addr.U8 = addr.As16()
	if addr.Is4() {
		bits += 96
	}
	k.Prefixlen = uint32(32 + bits)
	return k
}

func decodeProxy(k proxyKey) state.Proxy {
	index := int(htonl(k.Ifindex))
	addr, bits := netip.AddrFrom16(k.Addr.U8), int(k.Prefixlen)-32
	if addr.Is4In6() && bits >= 96 {
		addr, bits = addr.Unmap(), bits-96
	}
	return state.Proxy{Device: deviceName(index), Prefix: netip.PrefixFrom(addr, bits)}
}

func encodeLower(l state.Lower, index int) lowerKey {
	k := lowerKey{Ifindex: uint32(index)}
	for i, tag := range l.Tags {
		k.Tags[i].Proto, k.Tags[i].Id = htons(tag.Proto), htons(tag.ID)
	}
	return k
}

func decodeLower(k lowerKey, upper uint32) state.Lower {
	l := state.Lower{Device: deviceName(int(k.Ifindex)), Upper: deviceName(int(upper))}
	for i, tag := range k.Tags {
		l.Tags[i] = state.VLANTag{Proto: htons(tag.Proto), ID: htons(tag.Id)}
	}
	return l
}

func encodeNeighbour(n state.NeighbourEntry) neighbour {
	v := neighbour{Ifindex: n.IfIndex, Mtu: n.MTU}
	v.Link.Dst, v.Link.Src = n.Dst, n.Src
	for i, tag := range n.Tags {
		v.Link.Tags[i].Proto, v.Link.Tags[i].Id = htons(tag.Proto), htons(tag.ID)
	}
	if n.XDP {
		v.Flags = neighbourXDP
	}
	if n.Wire {
		v.Flags |= neighbourWire
	}
	return v
}

func decodeNeighbour(v neighbour) state.NeighbourEntry {
	n := state.NeighbourEntry{IfIndex: v.Ifindex, MTU: v.Mtu, Dst: v.Link.Dst, Src: v.Link.Src, XDP: v.Flags&neighbourXDP != 0, Wire: v.Flags&neighbourWire != 0}
	for i, tag := range v.Link.Tags {
		n.Tags[i] = state.VLANTag{Proto: htons(tag.Proto), ID: htons(tag.Id)}
	}
	return n
}

func htons(v uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], v)
	return binary.NativeEndian.Uint16(b[:])
}

func htonl(v uint32) uint32 {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], v)
	return binary.NativeEndian.Uint32(b[:])
}
