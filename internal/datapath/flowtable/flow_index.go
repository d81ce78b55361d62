package flowtable

import (
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weft/internal/datapath"
)

// The index of flows: see bpf/blocks/flow_lines.h for its layout and the reasons.

type flowBucket datapath.IngressTCFlowBucket

const (
	bucketBytes  = int(unsafe.Sizeof(flowBucket{}))
	bucketPlaces = len(flowBucket{}.Low)
	// bucketMoves is the largest number of flows that move for one that finds both
	// its buckets full.
	bucketMoves = 4
	families    = 2
	// indexLines is the number of lines that three bytes can address.
	indexLines = 1 << 24
)

// flowBuckets is the number of buckets for that many flows of a family: with seven
// flows to a bucket of eight slots, one flow in nine is in its second bucket.
func flowBuckets(flows int) uint32 { return uint32(flows/7 + 2) }

// flowIndex is the buckets of a family. Its owner supplies the hash of a line's
// flow.
type flowIndex struct {
	m       *ebpf.Map
	family  int // 0: IPv4; 1: IPv6, whose buckets are behind
	memory  []byte
	buckets []flowBucket
	hashOf  func(line uint32) uint64
	away    []uint32 // by first bucket: the number of flows that are in their second
}

func (x *flowIndex) mapIn() (err error) {
	all := int(x.m.MaxEntries())
	if x.memory, err = datapath.MapMemory(x.m, all*bucketBytes, unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return err
	}
	n := all / families
	x.buckets = unsafe.Slice((*flowBucket)(unsafe.Pointer(&x.memory[0])), all)[x.family*n:][:n]
	x.away = make([]uint32, n)
	return nil
}

func (x *flowIndex) close() error {
	if x.memory == nil {
		return nil
	}
	memory := x.memory
	x.memory, x.buckets = nil, nil
	return unix.Munmap(memory)
}

func hashMix(x uint64) uint64 {
	x ^= x >> 33
	x *= datapath.HashFirst
	x ^= x >> 33
	x *= datapath.HashSecond
	return x ^ x>>33
}

// placed is what a hash determines: the buckets, the first one first, and the tag.
type placed struct {
	in  [2]uint32
	tag byte
}

func (x *flowIndex) placesOf(h uint64) placed {
	n := uint64(len(x.buckets))
	return placed{[2]uint32{uint32(h >> 32 * n >> 32), uint32(h & (1<<32 - 1) * n >> 32)}, max(byte(h)&flowTag, 1)}
}

func (b *flowBucket) tag(place int) byte { return byte(b.Tags>>(8*place)) & flowTag }

// setTag is seen by programs all at once with the tags beside it.
func (b *flowBucket) setTag(place int, tag byte) {
	tags := b.Tags&^(flowTag<<(8*place)) | uint64(tag)<<(8*place)
	atomic.StoreUint64(&b.Tags, tags)
}

func (b *flowBucket) line(place int) uint32 { return uint32(b.Low[place]) | uint32(b.High[place])<<16 }

// set puts a line into a free slot. A program that has matched the slot's earlier
// tag may read half of the number: it compares the key of whatever line it finds.
func (b *flowBucket) set(place int, line uint32, tag byte) {
	b.Low[place], b.High[place] = uint16(line), uint8(line>>16)
	b.setTag(place, tag)
}

// find returns the position of the flow with this hash for which meant returns true.
func (x *flowIndex) find(hash uint64, meant func(line uint32) bool) (bucket uint32, place int, found bool) {
	p := x.placesOf(hash)
	for n, at := range p.in {
		if n == 1 && x.away[p.in[0]] == 0 {
			break
		}
		b := &x.buckets[at]
		for place := range bucketPlaces {
			if b.tag(place) == p.tag && meant(b.line(place)) {
				return at, place, true
			}
		}
	}
	return 0, 0, false
}

// insert adds a line to the index; false: there is no room, even if others move.
func (x *flowIndex) insert(hash uint64, line uint32) bool {
	p := x.placesOf(hash)
	for moves := range bucketMoves {
		for n, at := range p.in {
			if n == 1 && at == p.in[0] {
				break // both buckets are the same
			}
			if place, ok := x.room(at, moves); ok {
				x.buckets[at].set(place, line, p.tag)
				x.gone(p.in[0], n)
				return true
			}
		}
	}
	return false
}

// room returns a free slot in a bucket, after up to that many flows have moved to
// their other bucket.
func (x *flowIndex) room(at uint32, moves int) (place int, ok bool) {
	b := &x.buckets[at]
	for place := range bucketPlaces {
		if b.tag(place) == 0 {
			return place, true
		}
	}
	if moves == 0 {
		return 0, false
	}
	for place := range bucketPlaces {
		if x.move(at, place, moves-1) {
			return place, true
		}
	}
	return 0, false
}

// move takes a flow to its other bucket.
func (x *flowIndex) move(at uint32, place, moves int) bool {
	b := &x.buckets[at]
	line := b.line(place)
	p := x.placesOf(x.hashOf(line))
	to := p.in[0] + p.in[1] - at
	if to == at {
		return false
	}
	free, ok := x.room(to, moves)
	if !ok || b.tag(place) != p.tag || b.line(place) != line { // it has moved in the meantime
		return false
	}
	if to == p.in[1] {
		x.gone(p.in[0], 1)
	}
	x.buckets[to].set(free, line, p.tag)
	b.setTag(place, 0)
	if to == p.in[0] {
		x.gone(p.in[0], -1)
	}
	return true
}

// remove clears a slot.
func (x *flowIndex) remove(hash uint64, at uint32, place int) {
	x.buckets[at].setTag(place, 0)
	if p := x.placesOf(hash); at != p.in[0] {
		x.gone(p.in[0], -1)
	}
}

// gone counts the flows that are in their second bucket, and makes programs search
// there if there are any.
func (x *flowIndex) gone(home uint32, n int) {
	if n == 0 {
		return
	}
	x.away[home] += uint32(n)
	b := &x.buckets[home]
	if x.away[home] == 0 {
		atomic.StoreUint64(&b.Tags, b.Tags&^flowTagsAway)
		return
	}
	atomic.StoreUint64(&b.Tags, b.Tags|flowTagsAway)
}

// sort repairs the index: valid reports which lines have a flow. Slots that are
// there twice or whose line has no flow, left by a process that was killed, are
// cleared.
func (x *flowIndex) sort(valid func(line uint32) bool) (known map[uint32]struct{}) {
	known = map[uint32]struct{}{}
	clear(x.away)
	for at := range x.buckets {
		b := &x.buckets[at]
		for place := range bucketPlaces {
			tag, line := b.tag(place), b.line(place)
			if tag == 0 {
				continue
			}
			_, twice := known[line]
			var p placed
			if !twice && valid(line) {
				p = x.placesOf(x.hashOf(line))
			}
			if p.tag != tag || p.in[0] != uint32(at) && p.in[1] != uint32(at) {
				b.setTag(place, 0)
				continue
			}
			known[line] = struct{}{}
			if p.in[0] != uint32(at) {
				x.away[p.in[0]]++
			}
		}
	}
	for at := range x.buckets {
		b := &x.buckets[at]
		tags := b.Tags &^ flowTagsAway
		if x.away[at] > 0 {
			tags |= flowTagsAway
		}
		atomic.StoreUint64(&b.Tags, tags)
	}
	return known
}
