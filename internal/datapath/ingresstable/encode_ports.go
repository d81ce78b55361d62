package ingresstable

import (
	"net/netip"

	"weft/internal/datapath"
	"weft/internal/state"
)

// Short names for the types that bpf2go made from BTF.
type (
	portValue = datapath.IngressTCInterface
	proxyKey  = datapath.IngressTCProxyKey
	lowerKey  = datapath.IngressTCLowerKey
)

func encodePort(p state.IngressEntry) portValue {
	return portValue{Translators: p.Translators, Mac: p.MAC, Table: uint16(p.Table), Flags: uint32(p.Roles)}
}

func decodePort(index int, v portValue) state.IngressEntry {
	return state.IngressEntry{
		Device: datapath.DeviceName(index), MAC: v.Mac, Translators: v.Translators,
		Roles: state.Roles(v.Flags), Table: int(v.Table),
	}
}

func encodeProxy(p state.Proxy, index int) proxyKey {
	k := proxyKey{Ifindex: datapath.Htonl(uint32(index))}
	addr, bits := p.Prefix.Addr(), p.Prefix.Bits()
	k.Addr.U8 = addr.As16()
	if addr.Is4() {
		bits += 96
	}
	k.Prefixlen = uint32(32 + bits)
	return k
}

func decodeProxy(k proxyKey) state.Proxy {
	index := int(datapath.Htonl(k.Ifindex))
	addr, bits := netip.AddrFrom16(k.Addr.U8), int(k.Prefixlen)-32
	if addr.Is4In6() && bits >= 96 {
		addr, bits = addr.Unmap(), bits-96
	}
	return state.Proxy{Device: datapath.DeviceName(index), Prefix: netip.PrefixFrom(addr, bits)}
}

func encodeLower(l state.Lower, index int) lowerKey {
	k := lowerKey{Ifindex: uint32(index)}
	for i, tag := range l.Tags {
		k.Tags[i].Proto, k.Tags[i].Id = datapath.Htons(tag.Proto), datapath.Htons(tag.ID)
	}
	return k
}

func decodeLower(k lowerKey, upper uint32) state.Lower {
	l := state.Lower{Device: datapath.DeviceName(int(k.Ifindex)), Upper: datapath.DeviceName(int(upper))}
	for i, tag := range k.Tags {
		l.Tags[i] = state.VLANTag{Proto: datapath.Htons(tag.Proto), ID: datapath.Htons(tag.Id)}
	}
	return l
}
