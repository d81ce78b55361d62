package nat64table

import (
	"net/netip"
	"strings"

	"weft/internal/datapath"
	"weft/internal/state"
)

// Short names for the types that bpf2go made from BTF.
type (
	key4       = datapath.IngressTCNat64Key4
	key6       = datapath.IngressTCNat64Key6
	rule4      = datapath.IngressTCNat64Rule4
	rule6      = datapath.IngressTCNat64Rule6
	translator = datapath.IngressTCNat64Translator
	volume     = datapath.IngressTCNat64Volume
)

// suffixFrom is the bit at which the shared suffix starts in the IPv6 address,
// counted without the u octet where that is passed over.
func suffixFrom(ipv6 netip.Prefix, uOctet bool) uint8 {
	bits := ipv6.Bits()
	if uOctet && bits > 64 {
		bits -= 8
	}
	return uint8(bits)
}

func encodeRule6(r state.Rule) (key6, rule6) {
	k := key6{Prefixlen: uint32(r.From.Bits())}
	k.Addr.U8 = r.From.Addr().As16()
	v := rule6{Translator: uint32(r.Translator), Base4: datapath.Host32(r.To.Addr())}
	v.Suffix.From = suffixFrom(r.From, r.UOctet)
	v.Suffix.Bits = uint8(32 - r.To.Bits())
	v.Suffix.U_octet = datapath.Bit(r.UOctet)
	v.Suffix.Kind = uint8(r.Kind)
	return k, v
}

func decodeRule6(k key6, v rule6) state.Rule {
	return state.Rule{
		From:       netip.PrefixFrom(netip.AddrFrom16(k.Addr.U8), int(k.Prefixlen)),
		To:         netip.PrefixFrom(datapath.AddrOfHost32(v.Base4), 32-int(v.Suffix.Bits)),
		Kind:       state.RuleKind(v.Suffix.Kind),
		UOctet:     v.Suffix.U_octet != 0,
		Translator: int(v.Translator),
	}
}

func encodeRule4(r state.Rule) (key4, rule4) {
	k := key4{Prefixlen: uint32(r.From.Bits()), Addr: datapath.Wire32(r.From.Addr())}
	v := rule4{Translator: uint32(r.Translator)}
	v.Base6.U8 = r.To.Addr().As16()
	v.Suffix.From = suffixFrom(r.To, r.UOctet)
	v.Suffix.Bits = uint8(32 - r.From.Bits())
	v.Suffix.U_octet = datapath.Bit(r.UOctet)
	v.Suffix.Kind = uint8(r.Kind)
	return k, v
}

func decodeRule4(k key4, v rule4) state.Rule {
	return state.Rule{
		From:       netip.PrefixFrom(datapath.Addr4(k.Addr), int(k.Prefixlen)),
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
		ID: id, Name: name.String(), Device: datapath.DeviceName(int(v.Ifindex)), MAC: v.Mac,
		LowestMTU: int(v.LowestMtu), SmallestMTU: int(v.SmallestMtu), MaxMSS: int(v.MaxMss),
		UDPZero: v.Flags&nat64ComputeUDP != 0, CopyTOS: v.Flags&nat64CopyTOS != 0,
		Stateful: v.Flags&nat64Stateful != 0, Counts: v.Flags&nat64Counts != 0,
	}
	if v.Flags&nat64HasPrefix != 0 {
		t.Prefix = decodeRule4(key4{}, v.Prefix).To
	}
	return t
}
