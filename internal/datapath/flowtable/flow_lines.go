package flowtable

import (
	"errors"
	"fmt"
	"math/bits"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weft/internal/datapath"
)

// Flows in the lines of bpf/blocks/flow_lines.h, which explains the layout. Only
// their owner inserts and removes flows; programs count in them meanwhile.

// limboMost limits the lines that wait for a grace period.
const limboMost = 4096

// flowLineOf is the access to a line of a family, L: it stores flows V by their keys
// K.
type flowLineOf[K comparable, V, L any] interface {
	*L
	key() K
	fill(K, V)      // all but owner
	owner() *uint32 // the interface; 0: nothing is here
	flow() *V
	part() *flowPart
	becomes(*V) bool // whether the flow and its translation are the same
}

// flowLimbo is the number of lines that may wait for a grace period: there are that
// many more lines than flows.
func flowLimbo(flows int) int { return min(limboMost, flows/16+16) }

// flowLines is how many lines there are for so many flows.
func flowLines(flows int) uint32 { return uint32(flows + flowLimbo(flows)) }

// lineTable is the lines of a family, and the index that says which is whose.
type lineTable[K comparable, V, L any, P flowLineOf[K, V, L]] struct {
	m      *ebpf.Map
	memory []byte
	lines  []L
	index  flowIndex
	hashOf func(K) uint64
	most   int // flows
	owned  bool

	// of the owner
	used  []uint64 // a bit a line
	flows int
	last  int // the line that was given out
	limbo []uint32
}

func openLines[K comparable, V, L any, P flowLineOf[K, V, L]](m, index *ebpf.Map, family, most int, hashOf func(K) uint64) *lineTable[K, V, L, P] {
	t := &lineTable[K, V, L, P]{m: m, index: flowIndex{m: index, family: family}, most: most, hashOf: hashOf}
	t.index.hashOf = func(line uint32) uint64 { return hashOf(t.line(line).key()) }
	return t
}

func (t *lineTable[K, V, L, P]) line(at uint32) P { return &t.lines[at] }

// find returns the position of a key's flow.
func (t *lineTable[K, V, L, P]) find(k K) (hash uint64, bucket uint32, place int, found bool) {
	hash = t.hashOf(k)
	bucket, place, found = t.index.find(hash, func(line uint32) bool { return t.line(line).key() == k })
	return hash, bucket, place, found
}

// at returns the line of a slot.
func (t *lineTable[K, V, L, P]) at(bucket uint32, place int) P {
	return t.line(t.index.buckets[bucket].line(place))
}

func (t *lineTable[K, V, L, P]) mapIn(protection int) (err error) {
	n := int(t.m.MaxEntries())
	if n > indexLines {
		return fmt.Errorf("%s: %d lines, the index can address %d", t.m, n, indexLines)
	}
	if t.memory, err = datapath.MapMemory(t.m, n*int(unsafe.Sizeof(*new(L))), protection); err != nil {
		return err
	}
	t.lines = unsafe.Slice((*L)(unsafe.Pointer(&t.memory[0])), n)
	return nil
}

// own reads the existing flows, to change them.
func (t *lineTable[K, V, L, P]) own() error {
	if err := t.mapIn(unix.PROT_READ | unix.PROT_WRITE); err != nil {
		return err
	}
	if err := t.index.mapIn(); err != nil {
		return err
	}
	t.owned = true
	t.used = make([]uint64, (len(t.lines)+63)/64)
	known := t.index.sort(func(line uint32) bool { return int(line) < len(t.lines) && *t.line(line).owner() != 0 })
	for at := range t.lines {
		if _, there := known[uint32(at)]; there {
			t.use(at)
		} else if owner := t.line(uint32(at)).owner(); *owner != 0 { // left by a process that was killed
			storeWord(owner, 0)
		}
	}
	return nil
}

func (t *lineTable[K, V, L, P]) use(at int) {
	t.used[at/64] |= 1 << (at % 64)
	t.flows++
	t.last = at
}

func (t *lineTable[K, V, L, P]) close() error {
	if t == nil || t.memory == nil {
		return nil
	}
	memory := t.memory
	t.memory, t.lines = nil, nil
	return errors.Join(unix.Munmap(memory), t.index.close())
}

// open lets pending flows be used; missing ones are ignored.
func (t *lineTable[K, V, L, P]) open(keys []K) {
	for _, k := range keys {
		if _, bucket, place, found := t.find(k); found {
			open(t.at(bucket, place).part())
		}
	}
}

// put writes a flow, or replaces the one with its key. If only other fields change,
// it keeps its line and its counters.
func (t *lineTable[K, V, L, P]) put(k K, v V) error {
	hash, bucket, place, found := t.find(k)
	if found {
		if l := t.at(bucket, place); l.becomes(&v) {
			part, now := l.part(), (*flowPart)(unsafe.Pointer(&v))
			part.Seen, part.Closed = now.Seen, now.Closed
			storeWord(&part.Generation, now.Generation)
			return nil
		}
		t.free(hash, bucket, place)
	}
	if t.flows >= t.most {
		return ErrFlowsFull
	}
	if t.flows+len(t.limbo) >= len(t.lines) {
		if err := t.grace(); err != nil {
			return err
		}
	}
	at := t.freeLine()
	t.line(uint32(at)).fill(k, v)
	t.use(at)
	if !t.index.insert(hash, uint32(at)) {
		storeWord(t.line(uint32(at)).owner(), 0)
		t.used[at/64] &^= 1 << (at % 64) // no program has found it
		t.flows--
		return ErrFlowsFull
	}
	return nil
}

// freeLine returns the free line after the one that was allocated last: flows that
// begin together are adjacent. There is always one.
func (t *lineTable[K, V, L, P]) freeLine() int {
	at := (t.last + 1) % len(t.lines)
	for {
		free := ^t.used[at/64] >> (at % 64)
		if free == 0 {
			at = (at/64 + 1) * 64
		} else {
			at += bits.TrailingZeros64(free)
		}
		if at < len(t.lines) && free != 0 {
			return at
		}
		if at >= len(t.lines) {
			at = 0
		}
	}
}

// free removes the flow of a slot from its line, which can be used again after a
// grace period.
func (t *lineTable[K, V, L, P]) free(hash uint64, bucket uint32, place int) {
	at := t.index.buckets[bucket].line(place)
	t.index.remove(hash, bucket, place)
	storeWord(t.line(at).owner(), 0)
	t.limbo = append(t.limbo, at)
	t.flows--
}

func (t *lineTable[K, V, L, P]) delete(keys []K) {
	for _, k := range keys {
		if hash, bucket, place, found := t.find(k); found {
			t.free(hash, bucket, place)
		}
	}
}

// grace lets freed lines be used again, after the programs that may have found a
// flow there have ended.
func (t *lineTable[K, V, L, P]) grace() error {
	if len(t.limbo) == 0 {
		return nil
	}
	if err := datapath.Grace(); err != nil {
		return err
	}
	for _, at := range t.limbo {
		t.used[at/64] &^= 1 << (at % 64)
	}
	t.limbo = t.limbo[:0]
	return nil
}

// look returns a flow's fields other than its addresses.
func (t *lineTable[K, V, L, P]) look(k K) (v flowPart, there bool) {
	_, bucket, place, found := t.find(k)
	if !found {
		return v, false
	}
	return *t.at(bucket, place).part(), true
}

// next reads some flows from a line on, passes those to use for which skip returns
// false, and returns the line to continue with.
func (t *lineTable[K, V, L, P]) next(at int, skip func(*flowPart) bool, use func(*K, *V)) (on int, more bool, err error) {
	if t.lines == nil {
		if err := t.mapIn(unix.PROT_READ); err != nil {
			return at, false, err
		}
	}
	for n := 0; at < len(t.lines); at++ {
		if t.owned && at%64 == 0 && t.used[at/64] == 0 {
			at += 63
			continue
		}
		l := t.line(uint32(at))
		if loadWord(l.owner()) == 0 {
			continue
		}
		if n == flowsAtOnce {
			return at, true, nil
		}
		n++
		if skip != nil && skip(l.part()) {
			continue
		}
		k, v := l.key(), *l.flow()
		if !t.owned && (loadWord(l.owner()) == 0 || l.key() != k) {
			continue // removed meanwhile
		}
		use(&k, &v)
	}
	return at, false, nil
}
