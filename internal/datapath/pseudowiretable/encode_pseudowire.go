package pseudowiretable

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"weft/internal/datapath"
	"weft/internal/state"
)

type (
	pseudowireKey       = datapath.IngressTCPseudowireKey
	pseudowireRx        = datapath.IngressTCPseudowireRx
	pseudowireTx        = datapath.IngressTCPseudowireTx
	pseudowireEndpoints = datapath.IngressTCPseudowireEndpoints
	pseudowirePath      = datapath.IngressTCPseudowirePath
	pseudowireCounts    = datapath.IngressTCPseudowireStats
)

const (
	protocolUDP  = 17
	protocolGRE  = 47
	protocolL2TP = 115
	ethertypeTEB = 0x6558 // Ethernet frames inside (RFC 1701)
)

func addrOf16(b [16]byte) netip.Addr { return netip.AddrFrom16(b).Unmap() }

func encodeEndpoints(p state.Endpoints) (k pseudowireEndpoints) {
	k.Local.U8, k.Remote.U8 = p.Local.As16(), p.Remote.As16()
	return k
}

func decodeEndpoints(k pseudowireEndpoints) state.Endpoints {
	return state.Endpoints{Local: addrOf16(k.Local.U8), Remote: addrOf16(k.Remote.U8)}
}

func encodePseudowirePort(p state.PseudowirePort) pseudowireKey {
	k := pseudowireKey{LocalPort: datapath.Htons(p.Port), Kind: uint8(state.PseudowireSome | p.Kind)}
	k.Local.U8 = p.Local.As16()
	if p.Remote.IsValid() {
		k.Remote.U8 = p.Remote.As16()
	}
	return k
}

func decodePseudowirePort(k pseudowireKey) state.PseudowirePort {
	p := state.PseudowirePort{Kind: state.PseudowireKind(k.Kind) &^ state.PseudowireSome, Local: addrOf16(k.Local.U8), Port: datapath.Htons(k.LocalPort)}
	if k.Remote.U8 != [16]byte{} {
		p.Remote = addrOf16(k.Remote.U8)
	}
	return p
}

// looseKey is the key of the same session with any remote end.
func looseKey(k pseudowireKey) pseudowireKey {
	k.Remote.U8, k.RemotePort = [16]byte{}, 0
	return k
}

// sentKey is the key of what a pseudowire with this receive key sends.
func sentKey(k pseudowireKey, tx pseudowireTx) pseudowireKey {
	k.Id, k.Kind = datapath.Htonl(decodePseudowire(0, tx, pseudowireRx{}).TxID), k.Kind|uint8(state.PseudowireSent)
	return k
}

// keyOf returns the receive key of the pseudowire with this transmit entry.
func keyOf(tx pseudowireTx) pseudowireKey {
	k := pseudowireKey{Id: tx.RxId, Kind: uint8(tx.Kind)}
	k.Local, k.Remote = tx.Endpoints.Local, tx.Endpoints.Remote
	if state.PseudowireKind(tx.Kind) == state.PseudowireL2TPUDP {
		udp := tx.Outer[ipLen(addrOf16(k.Local.U8)):]
		k.LocalPort, k.RemotePort = binary.NativeEndian.Uint16(udp), binary.NativeEndian.Uint16(udp[2:])
	}
	return k
}

func ipLen(a netip.Addr) int {
	if a.Is4() {
		return 20
	}
	return 40
}

// pseudowireFlags in the order of the programs' constants.
func pseudowireFlags(p *state.Pseudowire) map[uint32]*bool {
	return map[uint32]*bool{
		pseudowireCounter: &p.Counter, pseudowirePinned: &p.Pinned, pseudowireSequence: &p.Sequence,
		pseudowireChecksum: &p.Checksum, pseudowireAnswer: &p.Answer, pseudowireXDP: &p.XDP,
		pseudowireBypass: &p.Bypass, pseudowireSegments: &p.Segments,
	}
}

func encodePseudowire(p state.Pseudowire) (tx pseudowireTx, keys []pseudowireKey, rx pseudowireRx, err error) {
	outer, seqoff := outerHeader(p)
	if len(outer) > len(tx.Outer) || len(p.RxCookie) > len(rx.Cookie) {
		return tx, nil, rx, fmt.Errorf("pseudowire %s has headers that are too long", p.Device)
	}
	tx = pseudowireTx{
		Endpoints: encodeEndpoints(p.Endpoints), Kind: uint32(p.Kind), OuterLen: uint32(len(outer)), Mtu: uint32(p.MTU),
		Ttl: uint8(p.TTL), Tos: uint8(max(p.TOS, 0)), Family: 2, Peer: uint32(p.Peer), Seqoff: uint32(seqoff),
		RxId: datapath.Htonl(p.RxID),
	}
	if p.Local.Is6() {
		tx.Family = 10
	}
	copy(tx.Outer[:], outer)
	for flag, set := range pseudowireFlags(&p) {
		if *set {
			tx.Flags |= flag
		}
	}
	if p.TOS < 0 {
		tx.Flags |= pseudowireInherit
	}
	if p.TTL == 0 {
		tx.Flags, tx.Ttl = tx.Flags|pseudowireInheritTTL, 64
	}
	if !p.DF {
		tx.Flags |= pseudowireNoDF
	}
	rx = pseudowireRx{Ifindex: uint32(p.Hidden), Flags: tx.Flags, CookieLen: uint32(len(p.RxCookie))}
	if p.Bypass {
		rx.Bypass = uint32(p.Peer)
	}
	copy(rx.Cookie[:], p.RxCookie)
	key := keyOf(tx)
	return tx, []pseudowireKey{key, looseKey(key), sentKey(key, tx)}, rx, nil
}

// outerHeader is all headers before the frame, without lengths, checksums, TOS and
// numbers; at is the offset of the number, 0 if there is none.
func outerHeader(p state.Pseudowire) (b []byte, at int) {
	protocol := map[state.PseudowireKind]byte{state.PseudowireL2TPUDP: protocolUDP, state.PseudowireL2TPIP: protocolL2TP, state.PseudowireGRE: protocolGRE, state.PseudowireGREKey: protocolGRE}[p.Kind]
	if p.Local.Is4() {
		b = make([]byte, 20)
		b[0], b[8], b[9] = 0x45, 64, protocol
		if p.DF {
			b[6] = 0x40
		}
		copy(b[12:], p.Local.AsSlice())
		copy(b[16:], p.Remote.AsSlice())
	} else {
		b = make([]byte, 40)
		b[0], b[6], b[7] = 0x60, protocol, 64
		copy(b[8:], p.Local.AsSlice())
		copy(b[24:], p.Remote.AsSlice())
	}
	put32 := func(v uint32) { b = binary.BigEndian.AppendUint32(b, v) }
	switch p.Kind {
	case state.PseudowireL2TPUDP: // RFC 3931 section 4.1.2.1
		b = binary.BigEndian.AppendUint16(b, p.LocalPort)
		b = binary.BigEndian.AppendUint16(b, p.RemotePort)
		put32(0)
		put32(0x00030000)
		fallthrough
	case state.PseudowireL2TPIP: // RFC 3931 section 4.1.1.1
		put32(p.TxID)
		b = append(b, p.TxCookie...)
		if p.Counter || p.Sequence {
			at = len(b)
			put32(0)
		}
	default: // RFC 2784 section 2, RFC 2890 section 2
		var flags uint16
		for bit, set := range map[uint16]bool{0x8000: p.Checksum, 0x2000: p.Kind == state.PseudowireGREKey, 0x1000: p.Sequence} {
			if set {
				flags |= bit
			}
		}
		b = binary.BigEndian.AppendUint16(b, flags)
		b = binary.BigEndian.AppendUint16(b, ethertypeTEB)
		if p.Checksum {
			put32(0)
		}
		if p.Kind == state.PseudowireGREKey {
			put32(p.TxID)
		}
		if p.Sequence {
			at = len(b)
			put32(0)
		}
	}
	return b, at
}

// decodePseudowire is the reverse of encodePseudowire. Without an rx entry the receive fields
// are empty.
func decodePseudowire(index int, tx pseudowireTx, rx pseudowireRx) state.Pseudowire {
	p := state.Pseudowire{
		Device: datapath.DeviceName(int(tx.Peer)), Hidden: index, Peer: int(tx.Peer), Kind: state.PseudowireKind(tx.Kind), Endpoints: decodeEndpoints(tx.Endpoints),
		RxID: datapath.Htonl(tx.RxId), TTL: int(tx.Ttl), TOS: int(tx.Tos), MTU: int(tx.Mtu), DF: tx.Flags&pseudowireNoDF == 0,
	}
	for flag, set := range pseudowireFlags(&p) {
		*set = tx.Flags&flag != 0
	}
	if tx.Flags&pseudowireInherit != 0 {
		p.TOS = -1
	}
	if tx.Flags&pseudowireInheritTTL != 0 {
		p.TTL = 0
	}
	if rx.Ifindex == uint32(index) && rx.CookieLen <= 8 {
		p.RxCookie = string(rx.Cookie[:rx.CookieLen])
	}
	b := tx.Outer[ipLen(p.Local):min(int(tx.OuterLen), len(tx.Outer))]
	switch p.Kind {
	case state.PseudowireL2TPUDP, state.PseudowireL2TPIP:
		if p.Kind == state.PseudowireL2TPUDP {
			p.LocalPort, p.RemotePort = binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
			b = b[12:]
		}
		p.TxID, b = binary.BigEndian.Uint32(b), b[4:]
		if tx.Seqoff != 0 {
			b = b[:len(b)-4]
		}
		p.TxCookie = string(b)
	case state.PseudowireGREKey:
		at := 4
		if p.Checksum {
			at = 8
		}
		p.TxID = binary.BigEndian.Uint32(b[at:])
	}
	return p
}

func encodeWay(w state.PseudowirePath) pseudowirePath {
	v := pseudowirePath{Ifindex: uint32(w.Device), Mtu: uint32(w.MTU), Dst: w.Dst, Src: w.Src}
	if w.Resolved {
		v.Flags = pseudowireResolved
	}
	if w.XDP {
		v.Flags |= pseudowirePathXDP
	}
	if w.Gateway.IsValid() {
		copy(v.Gateway.U8[:], w.Gateway.AsSlice())
	}
	return v
}

func decodeWay(v pseudowirePath) state.PseudowirePath {
	return state.PseudowirePath{
		Device: int(v.Ifindex), MTU: int(v.Mtu), PathMTU: int(v.PathMtu), Dst: v.Dst, Src: v.Src,
		Resolved: v.Flags&pseudowireResolved != 0, XDP: v.Flags&pseudowirePathXDP != 0,
	}
}
