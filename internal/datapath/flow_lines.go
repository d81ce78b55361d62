package datapath

import (
	"errors"
	"fmt"
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Flows of IPv4, in the lines of bpf/blocks/flow_lines.h, which says why they are
// as they are. Who owns them is the only one who puts flows in and takes them out;
// programs count in them meanwhile.

type flowLine = ingressTCFlowLine

const (
	lineBytes = int(unsafe.Sizeof(flowLine{}))
	// limboMost bounds the lines that wait for a grace period before it is waited for.
	limboMost = 4096
)

// flowLimbo is how many lines may wait: there are as many more than flows.
func flowLimbo(flows int) int { return min(limboMost, flows/16+16) }

// flowLines is how many lines there are for so many flows.
func flowLines(flows int) uint32 { return uint32(flows + flowLimbo(flows)) }

// lineTable is the lines, and the index that says which is whose.
type lineTable struct {
	m      *ebpf.Map
	memory []byte
	lines  []flowLine
	index  flowIndex
	most   int // flows
	owned  bool

	// of the owner
	used  []uint64 // a bit a line
	flows int
	last  int // the line that was given out
	limbo []uint32
}

func openLines(m, index *ebpf.Map, most int) *lineTable {
	t := &lineTable{m: m, index: flowIndex{m: index}, most: most}
	t.index.keyOf = func(line uint32) flowKey4 { return t.lines[line].key() }
	return t
}

func (t *lineTable) mapIn(protection int) (err error) {
	n := int(t.m.MaxEntries())
	if n > indexLines {
		return fmt.Errorf("flow_lines: %d lines, the index can tell %d apart", n, indexLines)
	}
	if t.memory, err = mapMemory(t.m, n*lineBytes, protection); err != nil {
		return err
	}
	t.lines = unsafe.Slice((*flowLine)(unsafe.Pointer(&t.memory[0])), n)
	return nil
}

// own finds out what is there, to change it.
func (t *lineTable) own() error {
	if err := t.mapIn(unix.PROT_READ | unix.PROT_WRITE); err != nil {
		return err
	}
	if err := t.index.mapIn(); err != nil {
		return err
	}
	t.owned = true
	t.used = make([]uint64, (len(t.lines)+63)/64)
	known := t.index.sort(func(line uint32) bool { return int(line) < len(t.lines) && t.lines[line].Interface != 0 })
	for at := range t.lines {
		if _, there := known[uint32(at)]; there {
			t.use(at)
		} else if l := &t.lines[at]; l.Interface != 0 { // of one before, who died on the way
			atomic.StoreUint32(&l.Interface, 0)
		}
	}
	return nil
}

func (t *lineTable) use(at int) {
	t.used[at/64] |= 1 << (at % 64)
	t.flows++
	t.last = at
}

func (t *lineTable) close() error {
	if t == nil || t.memory == nil {
		return nil
	}
	memory := t.memory
	t.memory, t.lines = nil, nil
	return errors.Join(unix.Munmap(memory), t.index.close())
}

func (l *flowLine) key() (k flowKey4) {
	k.Interface, k.Protocol = l.Interface, uint32(l.Flow.Flow.Protocol)
	k.Saddr, k.Daddr, k.Ports = l.Saddr, l.Daddr, l.Ports
	return k
}

// put writes a flow, instead of the one of that key if there is one. What of it
// stays as it is keeps its place and its counts.
func (t *lineTable) put(k flowKey4, v flow4) error {
	if bucket, place, found := t.index.find(k); found {
		l := &t.lines[t.index.buckets[bucket].line(place)].Flow
		if l.Saddr == v.Saddr && l.Daddr == v.Daddr && l.Flow.Ports == v.Flow.Ports && l.Flow.Hop == v.Flow.Hop {
			l.Flow.Seen, l.Flow.Closed = v.Flow.Seen, 0
			storeWord(&l.Flow.Generation, v.Flow.Generation)
			return nil
		}
		t.free(k, bucket, place)
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
	t.write(at, k, v)
	if !t.index.insert(k, uint32(at)) {
		atomic.StoreUint32(&t.lines[at].Interface, 0)
		t.used[at/64] &^= 1 << (at % 64) // nobody has found it
		t.flows--
		return ErrFlowsFull
	}
	return nil
}

// freeLine gives the free line after the one that was given out last: flows that
// begin together lie together. There is one.
func (t *lineTable) freeLine() int {
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

// write fills a free line: the word that tells of it last.
func (t *lineTable) write(at int, k flowKey4, v flow4) {
	l := &t.lines[at]
	v.Flow.Protocol = uint8(k.Protocol)
	l.Flow = v
	l.Saddr, l.Daddr, l.Ports = k.Saddr, k.Daddr, k.Ports
	atomic.StoreUint32(&l.Interface, k.Interface)
	t.use(at)
}

// free takes the flow of a key out of its line, which is to be used again after
// a grace period.
func (t *lineTable) free(k flowKey4, bucket uint32, place int) {
	at := t.index.buckets[bucket].line(place)
	t.index.remove(k, bucket, place)
	atomic.StoreUint32(&t.lines[at].Interface, 0)
	t.limbo = append(t.limbo, at)
	t.flows--
}

func (t *lineTable) delete(keys []flowKey4) {
	for _, k := range keys {
		if bucket, place, found := t.index.find(k); found {
			t.free(k, bucket, place)
		}
	}
}

// grace lets lines that were freed be used again, after those who may have found
// a flow there have ended.
func (t *lineTable) grace() error {
	if len(t.limbo) == 0 {
		return nil
	}
	if err := Grace(); err != nil {
		return err
	}
	for _, at := range t.limbo {
		t.used[at/64] &^= 1 << (at % 64)
	}
	t.limbo = t.limbo[:0]
	return nil
}

// look gives what there is of a flow, besides addresses.
func (t *lineTable) look(k flowKey4) (v flowPart, there bool) {
	bucket, place, found := t.index.find(k)
	if !found {
		return v, false
	}
	return *partOf(&t.lines[t.index.buckets[bucket].line(place)].Flow), true
}

func partOf(v *flow4) *flowPart { return (*flowPart)(unsafe.Pointer(&v.Flow)) }

// next looks at some flows from a line on, and gives those that skip does not
// tell to leave out, and the line to go on with.
func (t *lineTable) next(at int, skip func(*flowPart) bool, use func(*flowKey4, *flow4)) (on int, more bool, err error) {
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
		l := &t.lines[at]
		if atomic.LoadUint32(&l.Interface) == 0 {
			continue
		}
		if n == flowsAtOnce {
			return at, true, nil
		}
		n++
		if skip != nil && skip(partOf(&l.Flow)) {
			continue
		}
		k, v := l.key(), l.Flow
		if !t.owned && atomic.LoadUint32(&l.Interface) != k.Interface {
			continue // it went meanwhile
		}
		use(&k, &v)
	}
	return at, false, nil
}
