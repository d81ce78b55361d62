package flowtable

import (
	"encoding/binary"
	"os"
	"structs"
	"sync/atomic"
	"time"
	"unsafe"

	"weft/internal/datapath"
	"weft/internal/state"
)

// flowPart is struct flow of bpf/blocks/flow_maps.h, which both families have.
type flowPart = struct {
	_          structs.HostLayout
	Generation uint32
	Hop        uint32
	Diff       uint32
	Ports      struct {
		_      structs.HostLayout
		Source uint16
		Dest   uint16
	}
	Closed   uint8
	Protocol uint8
	Pad      uint16
	Seen     uint32
	Packets  uint64
	Bytes    uint64
}

var errDeadline = os.ErrDeadlineExceeded

func loadWord(p *uint32) uint32 { return atomic.LoadUint32(p) }

func addWord(p *uint32) { atomic.AddUint32(p, 1) }

func storeWord(p *uint32, v uint32) { atomic.StoreUint32(p, v) }

// open lets a pending flow be used, unless a program has seen its connection end, or
// another begin, since it was written: programs record that in the same word.
func open(p *flowPart) {
	word := (*uint32)(unsafe.Pointer(&p.Closed)) // and the protocol, which stays
	was := loadWord(word)
	now := was
	if closed := (*uint8)(unsafe.Pointer(&now)); *closed == flowPending {
		*closed = flowOpen
		atomic.CompareAndSwapUint32(word, was, now)
	}
}

func storeLong(p *uint64, v uint64) { atomic.StoreUint64(p, v) }

func wireOf(a [16]byte) uint32 { return binary.NativeEndian.Uint32(a[12:]) }

func encodeFlowKey4(k state.FlowKey) flowKey4 {
	v := flowKey4{Interface: k.Interface, Saddr: wireOf(k.Tuple.Src), Daddr: wireOf(k.Tuple.Dst), Protocol: uint32(k.Tuple.Protocol)}
	v.Ports.Source, v.Ports.Dest = datapath.Htons(k.Tuple.SrcPort), datapath.Htons(k.Tuple.DstPort)
	return v
}

func decodeFlowKey4(k *flowKey4) state.FlowKey {
	return state.FlowKey{Interface: k.Interface, Tuple: state.FlowTuple{
		Src: mapped(k.Saddr), Dst: mapped(k.Daddr),
		SrcPort: datapath.Htons(k.Ports.Source), DstPort: datapath.Htons(k.Ports.Dest), Protocol: uint8(k.Protocol),
	}}
}

func encodeFlowKey6(k state.FlowKey) flowKey6 {
	v := flowKey6{Interface: k.Interface, Protocol: uint32(k.Tuple.Protocol)}
	v.Saddr.U8, v.Daddr.U8 = k.Tuple.Src, k.Tuple.Dst
	v.Ports.Source, v.Ports.Dest = datapath.Htons(k.Tuple.SrcPort), datapath.Htons(k.Tuple.DstPort)
	return v
}

func decodeFlowKey6(k *flowKey6) state.FlowKey {
	return state.FlowKey{Interface: k.Interface, Tuple: state.FlowTuple{
		Src: k.Saddr.U8, Dst: k.Daddr.U8,
		SrcPort: datapath.Htons(k.Ports.Source), DstPort: datapath.Htons(k.Ports.Dest), Protocol: uint8(k.Protocol),
	}}
}

func encodePassedKey(k state.FlowKey) passedKey {
	v := passedKey{Interface: k.Interface, Protocol: uint32(k.Tuple.Protocol)}
	v.Saddr.U8, v.Daddr.U8 = k.Tuple.Src, k.Tuple.Dst
	v.Ports.Source, v.Ports.Dest = datapath.Htons(k.Tuple.SrcPort), datapath.Htons(k.Tuple.DstPort)
	return v
}

func encodeFlow4(f state.Flow, now uint32) flow4 {
	v := flow4{Saddr: wireOf(f.Becomes.Src), Daddr: wireOf(f.Becomes.Dst)}
	v.Flow.Generation, v.Flow.Hop, v.Flow.Seen, v.Flow.Closed = f.Generation, f.Hop, now, flowPending
	v.Flow.Diff = addressDiff(f)
	v.Flow.Ports.Source, v.Flow.Ports.Dest = datapath.Htons(f.Becomes.SrcPort), datapath.Htons(f.Becomes.DstPort)
	return v
}

func encodeFlow6(f state.Flow, now uint32) flow6 {
	var v flow6
	v.Saddr.U8, v.Daddr.U8 = f.Becomes.Src, f.Becomes.Dst
	v.Flow.Generation, v.Flow.Hop, v.Flow.Seen, v.Flow.Closed = f.Generation, f.Hop, now, flowPending
	v.Flow.Diff = addressDiff(f)
	v.Flow.Ports.Source, v.Flow.Ports.Dest = datapath.Htons(f.Becomes.SrcPort), datapath.Htons(f.Becomes.DstPort)
	return v
}

// addressDiff is the change of an Internet checksum over the addresses (RFC 1624):
// new words and the complements of the old, in the order in which the machine reads
// network byte order. Zero means that they stay the same.
func addressDiff(f state.Flow) uint32 {
	if f.Tuple.Src == f.Becomes.Src && f.Tuple.Dst == f.Becomes.Dst {
		return 0
	}
	var sum uint64
	from := 0
	if f.Tuple.Is4() {
		from = 12
	}
	for _, pair := range [][2][16]byte{{f.Tuple.Src, f.Becomes.Src}, {f.Tuple.Dst, f.Becomes.Dst}} {
		for at := from; at < 16; at += 4 {
			sum += uint64(^binary.NativeEndian.Uint32(pair[0][at:])) + uint64(binary.NativeEndian.Uint32(pair[1][at:]))
		}
	}
	for sum>>32 != 0 {
		sum = sum&0xffffffff + sum>>32
	}
	return uint32(sum)
}

func decodeFlow(v flowPart, now uint32) state.FlowUse {
	var u state.FlowUse
	u.Generation, u.Hop, u.Closed = v.Generation, v.Hop, v.Closed != 0
	u.Packets, u.Bytes = v.Packets, v.Bytes
	u.Becomes.SrcPort, u.Becomes.DstPort = datapath.Htons(v.Ports.Source), datapath.Htons(v.Ports.Dest)
	u.Idle = idle(&v, now)
	return u
}

func idle(v *flowPart, now uint32) time.Duration {
	return time.Duration(max(0, int32(now-v.Seen))) * datapath.Tick
}

func stateOf(v *flowPart, now uint32) state.FlowState {
	return state.FlowState{Generation: v.Generation, Hop: v.Hop, Closed: v.Closed != 0, Idle: idle(v, now)}
}

func encodeFlowHop(h state.FlowHop) flowHop {
	v := flowHop{Ifindex: h.Device, Interface: h.Interface, Mtu: h.MTU, Session: datapath.Htons(h.Link.Session)}
	v.Link.Dst, v.Link.Src = h.Link.Dst, h.Link.Src
	for i, tag := range h.Link.Tags {
		v.Link.Tags[i].Proto, v.Link.Tags[i].Id = datapath.Htons(tag.Proto), datapath.Htons(tag.ID)
	}
	if h.XDP {
		v.Flags = flowHopXDP
	}
	return v
}

func decodeFlowHop(v flowHop) state.FlowHop {
	h := state.FlowHop{Device: v.Ifindex, Interface: v.Interface, MTU: v.Mtu, XDP: v.Flags&flowHopXDP != 0}
	h.Link.Dst, h.Link.Src, h.Link.Session = v.Link.Dst, v.Link.Src, datapath.Htons(v.Session)
	for i, tag := range v.Link.Tags {
		h.Link.Tags[i] = state.VLANTag{Proto: datapath.Htons(tag.Proto), ID: datapath.Htons(tag.Id)}
	}
	return h
}

func decodePassed(e flowEvent) state.PassedFlow {
	p := state.PassedFlow{Interface: e.Flow.Interface, Device: e.Ifindex, Generation: e.Generation}
	p.Tuple = state.FlowTuple{
		Src: e.Flow.Saddr.U8, Dst: e.Flow.Daddr.U8,
		SrcPort: datapath.Htons(e.Flow.Ports.Source), DstPort: datapath.Htons(e.Flow.Ports.Dest), Protocol: uint8(e.Flow.Protocol),
	}
	p.Link.Dst, p.Link.Src, p.Link.Session = e.Link.Dst, e.Link.Src, datapath.Htons(e.Session)
	for i, tag := range e.Link.Tags {
		p.Link.Tags[i] = state.VLANTag{Proto: datapath.Htons(tag.Proto), ID: datapath.Htons(tag.Id)}
	}
	return p
}
