package translate

import (
	"container/list"
	"net/netip"
	"slices"

	"weft/internal/state"
	"weft/wire/checksum"
)

// Bounds of a Reassembler. RFC 6146 section 3.4 asks for two seconds at least,
// and for bounds. One source may hold a quarter, and one IPv6 /64, whose
// addresses a single host may have all, a half: the fragments of others still
// get in.
const (
	reassemblyTime  = 5e9 // ns
	reassemblyMost  = 1024
	reassemblyBytes = 4 << 20
	// partsMost is how many fragments one datagram may have: 65535 bytes in
	// packets of 576 are 119.
	partsMost = 128
	// partCost is what a fragment takes beside its bytes.
	partCost = 64
)

// Reassembler puts datagrams together, so that their parts find the ports that
// only the first one has (RFC 6146 section 3.4). What it holds is bounded, in
// all and for each source.
type Reassembler struct {
	held    map[datagramKey]*datagram
	all     holding
	sources map[netip.Prefix]*holding // addresses, and IPv6 /64s
	// Lost counts fragments that were given up: too late, too many.
	Lost int
}

// holding is what one source holds, or all together.
type holding struct {
	order list.List // of *datagram, the oldest first
	bytes int
}

// beyond reports whether it is more than one part in share of the bounds.
func (h *holding) beyond(share int) bool {
	return h.order.Len() > reassemblyMost/share || h.bytes > reassemblyBytes/share
}

func (h *holding) oldest() *datagram { return h.order.Front().Value.(*datagram) }

type datagramKey struct {
	src, dst netip.Addr
	id       uint32
	protocol byte // IPv4; zero for IPv6 (RFC 8200 section 4.5)
}

// sources returns whom the datagram counts against, and the share of each.
func (k datagramKey) sources() (prefixes [2]netip.Prefix, shares [2]int) {
	prefixes[0], shares = netip.PrefixFrom(k.src, k.src.BitLen()), [2]int{4, 2}
	if k.src.Is6() {
		prefixes[1] = netip.PrefixFrom(k.src, 64).Masked()
	}
	return prefixes, shares
}

type datagram struct {
	key   datagramKey
	since int64
	head  []byte // headers of the first fragment
	parts []part // in order, apart from each other
	bytes int    // of all parts
	total int    // bytes of all, once the last one is there; -1 before
	at    [3]*list.Element
}

type part struct {
	offset int
	data   []byte
}

// NewReassembler makes one that holds nothing.
func NewReassembler() *Reassembler {
	return &Reassembler{held: map[datagramKey]*datagram{}, sources: map[netip.Prefix]*holding{}}
}

// Add takes a fragment at a time in ns. If this was the last one missing it
// gives the whole packet, behind the headers of its first fragment (RFC 8200
// section 4.5), whose length is head; an IPv6 packet keeps its fragment header.
// Else the outcome tells what became of the fragment.
func (r *Reassembler) Add(now int64, key datagramKey, header []byte, frag fragment, data []byte) (whole []byte, head int, o state.Outcome) {
	r.expire(now)
	// one without data says nothing, and there is no end to them
	if len(data) == 0 || frag.overflows(len(data)) || frag.more && len(data)%8 != 0 {
		return nil, 0, state.DropBadHeader
	}
	d := r.held[key]
	if d == nil {
		d = &datagram{key: key, since: now, total: -1}
		r.hold(d)
	}
	if !d.take(header, frag, data) { // RFC 5722: the whole datagram goes
		r.forget(d)
		return nil, 0, state.DropReassembly
	}
	r.charge(d, len(data)+partCost)
	if d.bytes == d.total && d.head != nil {
		r.forget(d)
		if len(d.head)+d.total > maxPacket4 {
			return nil, 0, state.DropReassembly
		}
		return d.join(), len(d.head), state.OutcomeNone
	}
	r.shrink(key)
	return nil, 0, state.SlowFragment
}

// shrink gives up what is oldest of those who hold too much.
func (r *Reassembler) shrink(key datagramKey) {
	prefixes, shares := key.sources()
	for i, p := range prefixes {
		for h := r.sources[p]; p.IsValid() && h != nil && h.beyond(shares[i]); h = r.sources[p] {
			r.lose(h.oldest())
		}
	}
	for r.all.beyond(1) {
		r.lose(r.all.oldest())
	}
}

func (r *Reassembler) expire(now int64) {
	for r.all.order.Len() > 0 && now-r.all.oldest().since > reassemblyTime {
		r.lose(r.all.oldest())
	}
}

func (r *Reassembler) lose(d *datagram) {
	r.Lost += len(d.parts)
	r.forget(d)
}

// holdings returns what a datagram counts against.
func (r *Reassembler) holdings(d *datagram) (list [3]*holding) {
	list[0] = &r.all
	prefixes, _ := d.key.sources()
	for i, p := range prefixes {
		if !p.IsValid() {
			continue
		}
		if r.sources[p] == nil {
			r.sources[p] = &holding{}
		}
		list[i+1] = r.sources[p]
	}
	return list
}

func (r *Reassembler) hold(d *datagram) {
	r.held[d.key] = d
	for i, h := range r.holdings(d) {
		if h != nil {
			d.at[i] = h.order.PushBack(d)
		}
	}
}

func (r *Reassembler) charge(d *datagram, bytes int) {
	for _, h := range r.holdings(d) {
		if h != nil {
			h.bytes += bytes
		}
	}
}

func (r *Reassembler) forget(d *datagram) {
	r.charge(d, -d.bytes-len(d.parts)*partCost)
	for i, h := range r.holdings(d) {
		if h != nil {
			h.order.Remove(d.at[i])
		}
	}
	prefixes, _ := d.key.sources()
	for _, p := range prefixes {
		if h := r.sources[p]; h != nil && h.order.Len() == 0 {
			delete(r.sources, p)
		}
	}
	delete(r.held, d.key)
}

// take adds a part; false if it contradicts what is there.
func (d *datagram) take(head []byte, frag fragment, data []byte) bool {
	end := frag.offset + len(data)
	if len(d.parts) == partsMost || d.total >= 0 && (end > d.total || !frag.more && end != d.total) {
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
	d.bytes += len(data)
	return true
}

// join returns the packet. No parts overlap: when their bytes are the total, none
// is missing.
func (d *datagram) join() []byte {
	packet := make([]byte, 0, len(d.head)+d.total)
	packet = append(packet, d.head...)
	for _, p := range d.parts {
		packet = append(packet, p.data...)
	}
	return packet
}

// whole6 returns an IPv6 packet that is no fragment of more than one: itself, or
// put together.
func (r *Reassembler) whole6(now int64, pkt []byte, ch chain) ([]byte, state.Outcome) {
	if ch.frag.whole() {
		return pkt, state.OutcomeNone
	}
	key := datagramKey{src6(pkt), dst6(pkt), ch.frag.id, 0}
	whole, head, o := r.Add(now, key, pkt[:ch.payload], ch.frag, pkt[ch.payload:])
	if whole == nil {
		return nil, o
	}
	put16(whole[4:], uint16(len(whole)-header6Len))
	// offset zero, no more: in the fragment header of the first fragment, which
	// may have other headers before it than this one (RFC 8200 section 4.5)
	put16(whole[head-fragmentLen+2:], 0)
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
	whole, ihl, o := r.Add(now, key, pkt[:ihl], frag, pkt[ihl:])
	if whole == nil {
		return nil, o
	}
	put16(whole[2:], uint16(len(whole)))
	put16(whole[6:], 0)
	put16(whole[10:], 0)
	put16(whole[10:], ^checksum.Fold(checksum.Sum(whole[:ihl], 0)))
	return whole, state.OutcomeNone
}
