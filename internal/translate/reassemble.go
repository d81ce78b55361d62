package translate

import (
	"net/netip"
	"slices"

	"weft/internal/state"
	"weft/wire/checksum"
)

// Bounds of a Reassembler. RFC 6146 section 3.4 asks for two seconds at least,
// and for bounds.
const (
	reassemblyTime  = 5e9 // ns
	reassemblyMost  = 1024
	reassemblyBytes = 4 << 20
)

// Reassembler puts datagrams together, so that their parts find the ports that
// only the first one has (RFC 6146 section 3.4). What it holds is bounded.
type Reassembler struct {
	held  map[datagramKey]*datagram
	order []datagramKey // oldest first
	bytes int
	// Lost counts fragments that were given up: too late, too many.
	Lost int
}

type datagramKey struct {
	src, dst netip.Addr
	id       uint32
	protocol byte // IPv4; zero for IPv6 (RFC 8200 section 4.5)
}

type datagram struct {
	since int64
	head  []byte // headers of the first fragment
	parts []part // in order, apart from each other
	total int    // bytes of all, once the last one is there; -1 before
}

type part struct {
	offset int
	data   []byte
}

// NewReassembler makes one that holds nothing.
func NewReassembler() *Reassembler { return &Reassembler{held: map[datagramKey]*datagram{}} }

// Add takes a fragment at a time in ns. It gives the whole packet if this was
// the last one missing; an IPv6 packet keeps its fragment header, which then
// says that it is whole. Else the outcome tells what became of the fragment.
func (r *Reassembler) Add(now int64, key datagramKey, head []byte, frag fragment, data []byte) ([]byte, state.Outcome) {
	r.expire(now)
	if frag.overflows(len(data)) || frag.more && len(data)%8 != 0 {
		return nil, state.DropBadHeader
	}
	d := r.held[key]
	if d == nil {
		d = &datagram{since: now, total: -1}
		r.held[key] = d
		r.order = append(r.order, key)
	}
	if !d.take(head, frag, data) { // RFC 5722: the whole datagram goes
		r.forget(key)
		return nil, state.DropReassembly
	}
	r.bytes += len(data)
	if whole := d.whole(); whole != nil {
		r.forget(key)
		return whole, state.OutcomeNone
	}
	for len(r.held) > reassemblyMost || r.bytes > reassemblyBytes {
		r.Lost += len(r.held[r.order[0]].parts)
		r.forget(r.order[0])
	}
	return nil, state.SlowFragment
}

func (r *Reassembler) expire(now int64) {
	for len(r.order) > 0 && now-r.held[r.order[0]].since > reassemblyTime {
		r.Lost += len(r.held[r.order[0]].parts)
		r.forget(r.order[0])
	}
}

func (r *Reassembler) forget(key datagramKey) {
	for _, p := range r.held[key].parts {
		r.bytes -= len(p.data)
	}
	delete(r.held, key)
	r.order = slices.DeleteFunc(r.order, func(k datagramKey) bool { return k == key })
}

// take adds a part; false if it contradicts what is there.
func (d *datagram) take(head []byte, frag fragment, data []byte) bool {
	end := frag.offset + len(data)
	if d.total >= 0 && (end > d.total || !frag.more && end != d.total) {
		return false
	}
	at, _ := slices.BinarySearchFunc(d.parts, frag.offset, func(p part, offset int) int { return p.offset - offset })
	if at > 0 && d.parts[at-1].offset+len(d.parts[at-1].data) > frag.offset {
		return false
	}
	if at < len(d.parts) && end > d.parts[at].offset {
		return false
	}
	if !frag.more {
		if n := len(d.parts); n > 0 && d.parts[n-1].offset+len(d.parts[n-1].data) > end {
			return false
		}
		d.total = end
	}
	if frag.first() {
		d.head = slices.Clone(head)
	}
	d.parts = slices.Insert(d.parts, at, part{frag.offset, slices.Clone(data)})
	return true
}

// whole joins the parts, nil while any is missing.
func (d *datagram) whole() []byte {
	if d.total < 0 || d.head == nil {
		return nil
	}
	packet, at := d.head, 0
	for _, p := range d.parts {
		if p.offset != at {
			return nil
		}
		packet = append(packet, p.data...)
		at += len(p.data)
	}
	if at != d.total || len(packet) > maxPacket4 {
		return nil
	}
	return packet
}

// whole6 gives an IPv6 packet that is no fragment of more than one: itself, or
// put together.
func (r *Reassembler) whole6(now int64, pkt []byte, ch chain) ([]byte, state.Outcome) {
	if ch.frag.whole() {
		return pkt, state.OutcomeNone
	}
	key := datagramKey{src6(pkt), dst6(pkt), ch.frag.id, 0}
	whole, o := r.Add(now, key, pkt[:ch.payload], ch.frag, pkt[ch.payload:])
	if whole == nil {
		return nil, o
	}
	put16(whole[4:], uint16(len(whole)-header6Len))
	put16(whole[ch.payload-fragmentLen+2:], 0) // offset zero, no more
	return whole, state.OutcomeNone
}

// whole4 is whole6 for IPv4.
func (r *Reassembler) whole4(now int64, pkt []byte) ([]byte, state.Outcome) {
	frag, _ := fragment4(pkt)
	if frag.whole() {
		return pkt, state.OutcomeNone
	}
	ihl := ihl4(pkt)
	key := datagramKey{src4(pkt), dst4(pkt), frag.id, pkt[9]}
	whole, o := r.Add(now, key, pkt[:ihl], frag, pkt[ihl:])
	if whole == nil {
		return nil, o
	}
	ihl = ihl4(whole)
	put16(whole[2:], uint16(len(whole)))
	put16(whole[6:], 0)
	put16(whole[10:], 0)
	put16(whole[10:], ^checksum.Fold(checksum.Sum(whole[:ihl], 0)))
	return whole, state.OutcomeNone
}
