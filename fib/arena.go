package fib

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
)

// ErrFull says that the arena has no room for the update. The table is as it
// was; there may be room again after [Table.Release].
var ErrFull = errors.New("the arena is full")

// Blocks are handed out in granules, half a cache line in IPv6 and a quarter in
// IPv4, whose pages are many and small. A block of up to a line lies within
// one, a larger one starts on one, so that a lookup misses the cache as seldom
// as can be.
const (
	granule4 = 4
	granule6 = 8
	classes  = (nodeHeader+256+granule4-1)/granule4 + 2
)

type block struct {
	off   uint32
	class uint16 // granules
}

// arena hands out blocks of the caller's words. Freed blocks wait in the
// quarantine, in the order in which they were freed, until no reader can
// still be looking at them.
type arena struct {
	words      []uint32
	granule    int    // words
	noted      uint32 // where blocks begin that have notes at the arena's end, if not zero
	next       uint32 // first word never handed out
	free       [classes][]uint32
	freeWords  int
	quarantine []block
	merged     uint64  // released at the last merge
	released   uint64  // blocks that have left the quarantine, ever
	waiting    int     // words in quarantine
	fresh      []block // handed out for the update under way
	poison     bool    // overwrite what is released
}

// take returns a block of at least n words.
// What it held is undefined.
func (a *arena) take(n int) (uint32, error) {
	class := a.class(n)
	off, ok := a.recycle(class)
	if !ok && a.worthMerging() {
		a.merge()
		off, ok = a.recycle(class)
	}
	if !ok {
		off, ok = a.extend(class)
	}
	if !ok {
		return 0, fmt.Errorf("take %d of %d words: %w", n, len(a.words), ErrFull)
	}
	a.fresh = append(a.fresh, block{off, uint16(class)})
	return off, nil
}

// class is how many granules a block of n words has.
func (a *arena) class(n int) int { return (n + a.granule - 1) / a.granule }

// recycle finds a free block, or cuts one out of a larger.
func (a *arena) recycle(class int) (uint32, bool) {
	if off, ok := a.pop(class); ok {
		return off, true
	}
	for c := class + 1; c < classes; c++ {
		if off, ok := a.pop(c); ok {
			a.pushRun(off+uint32(class*a.granule), off+uint32(c*a.granule))
			return off, true
		}
	}
	return 0, false
}

func (a *arena) pop(class int) (uint32, bool) {
	list := a.free[class]
	if len(list) == 0 {
		return 0, false
	}
	off := list[len(list)-1]
	a.free[class] = list[:len(list)-1]
	a.freeWords -= class * a.granule
	return off, true
}

func (a *arena) push(off uint32, class int) {
	a.free[class] = append(a.free[class], off)
	a.freeWords += class * a.granule
}

// extend takes words never used before.
func (a *arena) extend(class int) (uint32, bool) {
	off := a.next
	if left := -off % lineWords; int(left) < class*a.granule {
		off += left
	}
	if !a.fits(uint64(off) + uint64(class*a.granule)) {
		return 0, false
	}
	if off != a.next {
		a.push(a.next, int(off-a.next)/a.granule)
	}
	a.next = off + uint32(class*a.granule)
	return off, true
}

// fits reports whether blocks may reach up to end. It leaves room for what a
// reader that bounds its offsets only roughly may touch (see Slack).
func (a *arena) fits(end uint64) bool { return end+a.notes(end)+Slack <= uint64(len(a.words)) }

// notes is how many words the notes of all blocks up to end take.
func (a *arena) notes(end uint64) uint64 {
	if a.noted == 0 {
		return 0
	}
	return (end - uint64(a.noted)) / uint64(a.granule) * noteWords
}

// worthMerging holds merge's cost to a part of that of the updates that freed
// the blocks: a table whose nodes all grow leaves small ones behind.
func (a *arena) worthMerging() bool {
	return a.freeWords > int(a.next)/16 && a.released-a.merged > uint64(a.freeBlocks())
}

func (a *arena) freeBlocks() (n int) {
	for _, list := range a.free {
		n += len(list)
	}
	return n
}

// merge joins free blocks that touch each other.
func (a *arena) merge() {
	a.merged = a.released
	var all []block
	for class, list := range a.free {
		for _, off := range list {
			all = append(all, block{off, uint16(class)})
		}
		a.free[class] = list[:0]
	}
	a.freeWords = 0
	slices.SortFunc(all, func(x, y block) int { return cmp.Compare(x.off, y.off) })
	for i := 0; i < len(all); {
		from, end := all[i].off, all[i].off
		for ; i < len(all) && all[i].off == end; i++ {
			end += uint32(all[i].class) * uint32(a.granule)
		}
		if end == a.next {
			a.next = from
			continue
		}
		a.pushRun(from, end)
	}
}

// pushRun frees a stretch of words as the largest blocks it has room for.
func (a *arena) pushRun(from, end uint32) {
	if left := min(-from%lineWords, end-from); left > 0 {
		a.push(from, int(left)/a.granule)
		from += left
	}
	largest := uint32(classes-1) * uint32(a.granule) / lineWords * lineWords
	for from < end {
		size := min(end-from, largest)
		a.push(from, int(size)/a.granule)
		from += size
	}
}

// put sends a block to the quarantine.
func (a *arena) put(b block) {
	a.quarantine = append(a.quarantine, b)
	a.waiting += int(b.class) * a.granule
}

// keep ends an update that succeeded, undo one that did not.
func (a *arena) keep() { a.fresh = a.fresh[:0] }

func (a *arena) undo() {
	for _, b := range a.fresh {
		a.push(b.off, int(b.class))
	}
	a.fresh = a.fresh[:0]
}

// release frees the oldest blocks of the quarantine, up to the count of
// blocks ever freed that seal returned.
func (a *arena) release(upTo uint64) {
	n := int(upTo - a.released)
	if upTo <= a.released {
		return
	}
	for _, b := range a.quarantine[:n] {
		if a.poison {
			for i := range uint32(b.class) * uint32(a.granule) {
				a.store(b.off+i, 0xffffffff)
			}
		}
		a.push(b.off, int(b.class))
		a.waiting -= int(b.class) * a.granule
	}
	a.quarantine = append(a.quarantine[:0], a.quarantine[n:]...)
	a.released = upTo
}

func (a *arena) seal() uint64 { return a.released + uint64(len(a.quarantine)) }

// load and store are for words that readers may look at meanwhile.
func (a *arena) load(at uint32) uint32        { return atomic.LoadUint32(&a.words[at]) }
func (a *arena) store(at uint32, word uint32) { atomic.StoreUint32(&a.words[at], word) }
