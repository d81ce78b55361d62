package flowtable

import (
	"encoding/binary"
	"unsafe"

	"weft/internal/datapath"
)

// What a flow's line is in each family.

type (
	flowLine4 = datapath.IngressTCFlowLine4
	flowLine6 = datapath.IngressTCFlowLine6

	line4  flowLine4
	line6  flowLine6
	lines4 = lineTable[flowKey4, flow4, line4, *line4]
	lines6 = lineTable[flowKey6, flow6, line6, *line6]
)

func portsWord(source *uint16) uint32 { return *(*uint32)(unsafe.Pointer(source)) }

// flowHash4 and flowHash6 are those of bpf/blocks/flow_lines.h.
func flowHash4(k flowKey4) uint64 {
	h := uint64(k.Saddr)<<32 | uint64(k.Daddr)
	h ^= uint64(portsWord(&k.Ports.Source)) * datapath.HashGolden
	return hashMix(h ^ (uint64(k.Protocol)<<32|uint64(k.Interface))*datapath.HashSpread)
}

func flowHash6(k flowKey6) uint64 {
	h := uint64(portsWord(&k.Ports.Source))<<32 | uint64(k.Protocol<<24^k.Interface)
	for _, a := range [][16]byte{k.Saddr.U8, k.Daddr.U8} {
		for at := 0; at < 16; at += 8 {
			h = (h ^ (uint64(binary.NativeEndian.Uint32(a[at:]))<<32 | uint64(binary.NativeEndian.Uint32(a[at+4:])))) * datapath.HashGolden
			h ^= h >> 32
		}
	}
	return hashMix(h)
}

func (l *line4) key() (k flowKey4) {
	k.Interface, k.Protocol = l.Interface, uint32(l.Flow.Flow.Protocol)
	k.Saddr, k.Daddr, k.Ports = l.Saddr, l.Daddr, l.Ports
	return k
}

func (l *line4) fill(k flowKey4, v flow4) {
	v.Flow.Protocol = uint8(k.Protocol)
	l.Flow = v
	l.Saddr, l.Daddr, l.Ports = k.Saddr, k.Daddr, k.Ports
	storeWord(&l.Interface, k.Interface) // last: it makes the line valid
}

func (l *line4) owner() *uint32 { return &l.Interface }

func (l *line4) flow() *flow4 { return (*flow4)(&l.Flow) }

func (l *line4) part() *flowPart { return (*flowPart)(unsafe.Pointer(&l.Flow.Flow)) }

func (l *line4) becomes(v *flow4) bool {
	f := &l.Flow
	return f.Saddr == v.Saddr && f.Daddr == v.Daddr && f.Flow.Ports == v.Flow.Ports && f.Flow.Hop == v.Flow.Hop
}

func (l *line6) key() (k flowKey6) {
	k.Interface, k.Protocol = l.Interface, uint32(l.Flow.Flow.Protocol)
	k.Saddr, k.Daddr, k.Ports = l.Saddr, l.Daddr, l.Ports
	return k
}

func (l *line6) fill(k flowKey6, v flow6) {
	v.Flow.Protocol = uint8(k.Protocol)
	l.Flow = v
	l.Saddr, l.Daddr, l.Ports = k.Saddr, k.Daddr, k.Ports
	storeWord(&l.Interface, k.Interface)
}

func (l *line6) owner() *uint32 { return &l.Interface }

func (l *line6) flow() *flow6 { return (*flow6)(&l.Flow) }

func (l *line6) part() *flowPart { return (*flowPart)(unsafe.Pointer(&l.Flow.Flow)) }

func (l *line6) becomes(v *flow6) bool {
	f := &l.Flow
	return f.Saddr == v.Saddr && f.Daddr == v.Daddr && f.Flow.Ports == v.Flow.Ports && f.Flow.Hop == v.Flow.Hop
}
