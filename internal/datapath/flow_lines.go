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

// Flows of IPv4, in the table of bpf/blocks/flow_lines.h, which says why it is as
// it is. Who owns it is the only one who puts flows in and takes them out;
// programs count in them meanwhile.

type flowLine = ingressTCFlowLine

const (
	lineBytes    = int(unsafe.Sizeof(flowLine{}))
	lineProtocol = 24 // FLOW_LINE_PROTOCOL
	// limboMax bounds the lines that wait for a grace period before it is waited for.
	limboMax = 4096
)

// flowLines is how many lines there are for so many flows, a power of two: at
// least three for two, so that most are at their first place. More would have
// each flow on a page of its own, whose address the processor has to look up.
// The map has pairs of them.
func flowLines(flows int) uint32 {
	if flows == 0 {
		return 2
	}
	return 1 << bits.Len(uint(flows+flows/2-1))
}

// lineTable is the lines, and what has found no place among them.
type lineTable struct {
	m, more *ebpf.Map
	memory  []byte
	lines   []flowLine
	mask    uint32
	owned   bool

	// of the owner
	used  []uint64       // a bit a line
	flows uint32         // in lines and in more
	away  map[uint32]int // by first places: how many flows are not in their pair
	limbo map[uint32]bool
}

func openLines(m, more *ebpf.Map) (*lineTable, error) {
	return &lineTable{m: m, more: more, mask: 2*m.MaxEntries() - 1}, nil
}

func (t *lineTable) mapIn(protection int) (err error) {
	n := 2 * int(t.m.MaxEntries())
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
	t.owned = true
	t.used = make([]uint64, (len(t.lines)+63)/64)
	t.away, t.limbo = map[uint32]int{}, map[uint32]bool{}
	for at := range t.lines {
		l := &t.lines[at]
		if l.Interface == 0 {
			continue
		}
		t.used[at/64] |= 1 << (at % 64)
		t.flows++
		if home := t.places(l.key())[0]; !pair(home, uint32(at)) {
			t.gone(home, 1)
		}
	}
	var b batches[flowKey4, flow4]
	for more := true; more; {
		var err error
		more, err = b.next(t.more, func(k *flowKey4, _ *flow4) {
			t.flows++
			t.gone(t.places(*k)[0], 1)
		})
		if err != nil {
			return err
		}
	}
	for at := range t.lines { // of the one before, who may have died on the way
		if l := &t.lines[at].Flow.Flow; l.Away != 0 && t.away[uint32(at)] == 0 {
			l.Away = 0
		}
	}
	return nil
}

func (t *lineTable) close() error {
	if t == nil || t.memory == nil {
		return nil
	}
	memory := t.memory
	t.memory, t.lines = nil, nil
	return unix.Munmap(memory)
}

func hashMix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

func portsWord(k *flowKey4) uint32 { return *(*uint32)(unsafe.Pointer(&k.Ports.Source)) }

// places gives where the flow of a key may be, the first one first.
func (t *lineTable) places(k flowKey4) [4]uint32 {
	h := uint64(k.Saddr)<<32 | uint64(k.Daddr)
	h ^= uint64(portsWord(&k)) * 0x9e3779b97f4a7c15
	h = hashMix(h ^ (uint64(k.Protocol)<<32|uint64(k.Interface))*0xd6e8feb86659fd93)
	first, second := uint32(h)&t.mask, uint32(h>>32)&t.mask
	return [4]uint32{first, first ^ 1, second, second ^ 1}
}

func pair(a, b uint32) bool { return a|1 == b|1 }

// lined tells whether a key can be in a line.
func lined(k flowKey4) bool { return k.Interface>>lineProtocol == 0 }

func lineWord(k flowKey4) uint32 { return k.Interface | k.Protocol<<lineProtocol }

func (l *flowLine) is(k flowKey4) bool {
	return l.Interface == lineWord(k) && l.Saddr == k.Saddr && l.Daddr == k.Daddr && l.Ports == k.Ports
}

func (l *flowLine) key() (k flowKey4) {
	k.Interface, k.Protocol = l.Interface&(1<<lineProtocol-1), l.Interface>>lineProtocol
	k.Saddr, k.Daddr, k.Ports = l.Saddr, l.Daddr, l.Ports
	return k
}

// gone counts flows that are not in their pair, and has programs look for them
// elsewhere if there are any.
func (t *lineTable) gone(home uint32, n int) {
	t.away[home] += n
	if t.away[home] == 0 {
		delete(t.away, home)
		t.lines[home].Flow.Flow.Away = 0
		return
	}
	t.lines[home].Flow.Flow.Away = 1
}

// find gives the line of a key, if it is in one.
func (t *lineTable) find(k flowKey4) (at uint32, found bool) {
	if !lined(k) {
		return 0, false
	}
	for _, at := range t.places(k) {
		if int(at) < len(t.lines) && t.lines[at].is(k) {
			return at, true
		}
	}
	return 0, false
}

// put writes a flow, instead of the one of that key if there is one. What of it
// stays as it is keeps its place and its counts.
func (t *lineTable) put(k flowKey4, v flow4) error {
	if at, found := t.find(k); found {
		l := &t.lines[at].Flow
		if l.Saddr == v.Saddr && l.Daddr == v.Daddr && l.Flow.Ports == v.Flow.Ports && l.Flow.Hop == v.Flow.Hop {
			l.Flow.Seen, l.Flow.Closed = v.Flow.Seen, 0
			storeWord(&l.Flow.Generation, v.Flow.Generation)
			return nil
		}
		t.free(at, k)
	} else if in, err := t.inMore(k); err != nil {
		return err
	} else if in {
		return t.more.Put(k, v)
	}
	if t.flows >= t.more.MaxEntries() {
		return ErrFlowsFull
	}
	if len(t.limbo) >= limboMax {
		if err := t.grace(); err != nil {
			return err
		}
	}
	places := t.places(k)
	for _, at := range places {
		if !lined(k) || int(at) >= len(t.lines) || t.used[at/64]>>(at%64)&1 != 0 || t.limbo[at] {
			continue
		}
		t.write(at, k, v)
		if !pair(places[0], at) {
			t.gone(places[0], 1)
		}
		return nil
	}
	if err := t.more.Put(k, v); err != nil {
		return err
	}
	t.flows++
	t.gone(places[0], 1)
	return nil
}

// inMore tells whether a key is in the table of those without a line.
func (t *lineTable) inMore(k flowKey4) (bool, error) {
	if lined(k) && t.away[t.places(k)[0]] == 0 {
		return false, nil
	}
	var v flow4
	err := t.more.Lookup(k, &v)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return false, nil
	}
	return err == nil, err
}

// write fills a free line: the word that tells of it last.
func (t *lineTable) write(at uint32, k flowKey4, v flow4) {
	l := &t.lines[at]
	v.Flow.Away = l.Flow.Flow.Away
	l.Flow = v
	l.Saddr, l.Daddr, l.Ports = k.Saddr, k.Daddr, k.Ports
	atomic.StoreUint32(&l.Interface, lineWord(k))
	t.used[at/64] |= 1 << (at % 64)
	t.flows++
}

// free takes the flow of a key out of its line.
func (t *lineTable) free(at uint32, k flowKey4) {
	atomic.StoreUint32(&t.lines[at].Interface, 0)
	t.used[at/64] &^= 1 << (at % 64)
	t.limbo[at] = true
	t.flows--
	if home := t.places(k)[0]; !pair(home, at) {
		t.gone(home, -1)
	}
}

func (t *lineTable) delete(keys []flowKey4) error {
	for _, k := range keys {
		if at, found := t.find(k); found {
			t.free(at, k)
			continue
		}
		if in, err := t.inMore(k); err != nil || !in {
			if err != nil {
				return err
			}
			continue
		}
		if err := t.more.Delete(k); err != nil {
			return err
		}
		t.flows--
		t.gone(t.places(k)[0], -1)
	}
	return nil
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
	clear(t.limbo)
	return nil
}

// lineCursor is how far a look at all flows of IPv4 has come.
type lineCursor struct {
	at   int // the next line
	more batches[flowKey4, flow4]
}

// look gives what there is of a flow, besides addresses.
func (t *lineTable) look(k flowKey4) (v flowPart, there bool, err error) {
	if at, found := t.find(k); found {
		return *partOf(&t.lines[at].Flow), true, nil
	}
	if lined(k) && t.away[t.places(k)[0]] == 0 {
		return v, false, nil
	}
	var more flow4
	err = t.more.Lookup(k, &more)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return v, false, nil
	}
	return *partOf(&more), err == nil, err
}

func partOf(v *flow4) *flowPart { return (*flowPart)(unsafe.Pointer(&v.Flow)) }

// next looks at some flows, and gives those that skip does not tell to leave out.
func (t *lineTable) next(c *lineCursor, skip func(*flowPart) bool, use func(*flowKey4, *flow4)) (more bool, err error) {
	if t.lines == nil {
		if err := t.mapIn(unix.PROT_READ); err != nil {
			return false, err
		}
	}
	for n := 0; c.at < len(t.lines); c.at++ {
		if t.owned && c.at%64 == 0 && t.used[c.at/64] == 0 {
			c.at += 63
			continue
		}
		l := &t.lines[c.at]
		word := atomic.LoadUint32(&l.Interface)
		if word == 0 {
			continue
		}
		if n == flowsAtOnce {
			return true, nil
		}
		n++
		if skip != nil && skip(partOf(&l.Flow)) {
			continue
		}
		k, v := l.key(), l.Flow
		if !t.owned && atomic.LoadUint32(&l.Interface) != word {
			continue // it went meanwhile
		}
		use(&k, &v)
	}
	more, err = c.more.next(t.more, func(k *flowKey4, v *flow4) {
		if skip == nil || !skip(partOf(v)) {
			use(k, v)
		}
	})
	if err != nil {
		err = fmt.Errorf("read flows without a line: %w", err)
	}
	return more, err
}
