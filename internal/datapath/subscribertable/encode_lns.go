package subscribertable

import (
	"encoding/binary"
	"net/netip"

	"weft/internal/datapath"
	"weft/internal/state"
)

// Short names for the types of access.
type (
	lnsValue        = datapath.IngressTCL2tpLns
	tunnelValue     = datapath.IngressTCL2tpTunnel
	groupValue      = datapath.IngressTCL2tpGroup
	downLine        = datapath.IngressTCL2tpDown
	upLine          = datapath.IngressTCL2tpUp
	downRest        = datapath.IngressTCL2tpDownRest
	upRest          = datapath.IngressTCL2tpUpRest
	sessionState    = datapath.IngressTCL2tpState
	ownerKey4       = datapath.IngressTCL2tpAddr4
	ownerKey6       = datapath.IngressTCL2tpAddr6
	lineValue       = datapath.IngressTCL2tpLine
	lengthsValue    = datapath.IngressTCL2tpLengths
	walledGardenKey = datapath.IngressTCL2tpWalledGardenKey
	captured        = datapath.IngressTCL2tpCaptured
)

func encodeLNS(a state.LNS, index int) lnsValue {
	v := lnsValue{Ifindex: uint32(index), Mac: a.MAC, Table: uint16(a.Table)}
	if a.Routed {
		v.Flags |= l2tpLnsRouted
	}
	for i := 0; i < len(a.Name) && i < len(v.Name)-1; i++ {
		v.Name[i] = int8(a.Name[i])
	}
	return v
}

func decodeLNS(id int, v lnsValue) state.LNS {
	var name []byte
	for _, c := range v.Name {
		if c == 0 {
			break
		}
		name = append(name, byte(c))
	}
	return state.LNS{
		ID: id, Name: string(name), Device: datapath.DeviceName(int(v.Ifindex)), MAC: v.Mac,
		Table: int(v.Table), Routed: v.Flags&l2tpLnsRouted != 0,
	}
}

// wireAddr is an address as the programs hold it: IPv4 in the first word.
func wireAddr(a netip.Addr) (b [16]byte) {
	copy(b[:], a.AsSlice())
	return b
}

func encodeTunnel(t state.L2TPTunnel) tunnelValue {
	v := tunnelValue{HerePort: datapath.Wire16(t.LocalAddr.Port()), PeerPort: datapath.Wire16(t.Peer.Port()), Remote: datapath.Wire16(t.Remote), Family: 10}
	v.LocalAddr.U8, v.Peer.U8 = wireAddr(t.LocalAddr.Addr()), wireAddr(t.Peer.Addr())
	if t.LocalAddr.Addr().Is4() {
		v.Family = 2
	}
	return v
}

func decodeTunnel(id uint32, v tunnelValue) (state.L2TPTunnel, bool) {
	addr := func(b [16]byte) netip.Addr {
		if v.Family == 2 {
			return netip.AddrFrom4([4]byte(b[:4]))
		}
		return netip.AddrFrom16(b)
	}
	return state.L2TPTunnel{
		Local: uint16(id), Remote: datapath.Wire16(v.Remote),
		LocalAddr: netip.AddrPortFrom(addr(v.LocalAddr.U8), datapath.Wire16(v.HerePort)),
		Peer:      netip.AddrPortFrom(addr(v.Peer.U8), datapath.Wire16(v.PeerPort)),
	}, v.Family != 0
}

// rate is in 1000 bit/s; the least that there is is one of them.
func rate(bits uint64) uint32 {
	return uint32(min((bits+999)/1000, 1<<32-1))
}

func encodeOwner4(o owned) ownerKey4 {
	return ownerKey4{Addr: datapath.Wire32(o.prefix.Addr()), Table: uint16(o.table), Bits: uint16(o.prefix.Bits())}
}

func decodeOwner4(k ownerKey4) owned {
	return owned{netip.PrefixFrom(datapath.Addr4(k.Addr), int(k.Bits)), int(k.Table)}
}

func encodeOwner6(o owned) ownerKey6 {
	k := ownerKey6{Table: uint16(o.table), Bits: uint16(o.prefix.Bits())}
	k.Addr.U8 = o.prefix.Addr().As16()
	return k
}

func decodeOwner6(k ownerKey6) owned {
	return owned{netip.PrefixFrom(netip.AddrFrom16(k.Addr.U8), int(k.Bits)), int(k.Table)}
}

// walledGardenKeys: the access is part of the prefix.
func encodeWalledGarden(g state.WalledGarden) walledGardenKey {
	a, bits := g.Prefix.Masked().Addr(), g.Prefix.Bits()
	if a.Is4() {
		bits += 96
	}
	k := walledGardenKey{Prefixlen: uint32(32 + bits)}
	var id [4]byte
	binary.BigEndian.PutUint32(id[:], uint32(g.LNS))
	k.Lns = binary.NativeEndian.Uint32(id[:])
	k.Addr.U8 = a.As16()
	return k
}

func decodeWalledGarden(k walledGardenKey) state.WalledGarden {
	var id [4]byte
	binary.NativeEndian.PutUint32(id[:], k.Lns)
	a, bits := netip.AddrFrom16(k.Addr.U8), int(k.Prefixlen)-32
	if a.Is4In6() && bits >= 96 {
		a, bits = a.Unmap(), bits-96
	}
	return state.WalledGarden{LNS: int(binary.BigEndian.Uint32(id[:])), Prefix: netip.PrefixFrom(a, bits)}
}

// Accesses lists the accesses, by id.
func (d Table) LNSes() ([]state.LNS, error) {
	m, err := d.core.Map("l2tp_lnses")
	if err != nil {
		return nil, err
	}
	var list []state.LNS
	for id := range m.MaxEntries() {
		var v lnsValue
		if err := m.Lookup(id, &v); err != nil {
			return nil, err
		}
		if v.Ifindex != 0 {
			list = append(list, decodeLNS(int(id), v))
		}
	}
	return list, nil
}

// lnsMaps are the tables of access that speak of each other.
func lnsMaps() []string {
	return []string{"l2tp_tunnels", "l2tp_sessions", "l2tp_states", "l2tp_lines", "l2tp_owners4", "l2tp_owners6", "l2tp_owner_lengths"}
}

// gardens lists what subscribers in walled gardens may reach.
func (d Table) walledGardens() ([]state.WalledGarden, error) {
	return datapath.Collect(d.core, "l2tp_walled_gardens", func(k walledGardenKey, _ uint32) state.WalledGarden { return decodeWalledGarden(k) })
}

func (d Table) writeWalledGarden(g state.WalledGarden, remove bool) error {
	return d.core.Write("l2tp_walled_gardens", encodeWalledGarden(g), uint32(1), remove)
}

// applyLNS carries out a step on an access.
func (d Table) applyLNS(a state.LNS, remove bool) error {
	if remove {
		return d.core.Write("l2tp_lnses", uint32(a.ID), lnsValue{}, false)
	}
	index, err := datapath.DeviceIndex(a.Device)
	if err != nil {
		return err
	}
	return d.core.Write("l2tp_lnses", uint32(a.ID), encodeLNS(a, index), false)
}
