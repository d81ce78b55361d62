package fib

import (
	"sync/atomic"
	"unsafe"
)

// The index leads straight to the nodes of IPv6 in which most lookups end: those
// that decide the bits from 32 or from 40 on. A lookup asks it for both at once
// and beside the root, instead of waiting for one node after the other.
//
// It is a hash table of sets with two entries, 64 bits each, one store:
//
//	63           27 26           0
//	+--------------+--------------+
//	|      id      |   offset     |    zero: empty
//	+--------------+--------------+
//
// The id is the node's place wholly (bits 4 to 31 or 39 of the address, all
// under 2000::/4, and which of both), so that no entry is taken for another's.
// A node that finds its set full is not in the index. Nobody needs to be in it:
// who is not found is reached from the root.
const (
	indexSetBits = 15
	indexWays    = 2
	indexSet     = indexWays * 2 // words
	indexWords   = indexSet << indexSetBits
	indexHash    = 0x9e3779b97f4a7c15 // odd, of the golden ratio (Knuth 6.4)

	indexShallow = 32
	indexDeep    = 40
	indexDeepBit = 1 << (indexDeep - root6From)
)

// indexID tells whether a node at this depth belongs to the index, and as what.
func indexID(k key, depth int) (id uint64, ok bool) {
	if k.hi>>60 != 2 {
		return 0, false
	}
	place := k.hi << root6From >> root6From
	switch depth {
	case indexShallow:
		return place >> (64 - indexShallow), true
	case indexDeep:
		return place>>(64-indexDeep) | indexDeepBit, true
	}
	return 0, false
}

// indexed is the offset of the node with this id, or zero.
func (t *Table) indexed(id uint64) uint32 {
	at := t.indexAt(id)
	for range indexWays {
		if e := t.loadPair(at); e>>tagShift == id {
			if off := payload(uint32(e)); off != 0 {
				return off
			}
		}
		at += 2
	}
	return 0
}

func (t *Table) indexAt(id uint64) uint32 {
	return t.root + 1<<root6Bits + uint32(id*indexHash>>(64-indexSetBits))*indexSet
}

// moved is a node that an update has made, or one that it takes away.
type moved struct {
	id   uint64
	off  uint32
	gone bool
}

// keep ends an update that succeeded: the index follows. Lookups that it leads
// to a node which was replaced see what held before the update until then.
func (t *Table) keep() {
	t.arena.keep()
	for _, m := range t.moved {
		if m.gone {
			t.unindex(m)
		} else {
			t.index(m)
		}
	}
	t.moved = t.moved[:0]
}

func (t *Table) undo() {
	t.arena.undo()
	t.moved = t.moved[:0]
}

// index enters a node, in the place of the one with its id or in a free one.
func (t *Table) index(m moved) {
	at, free := t.indexAt(m.id), uint32(0)
	for range indexWays {
		switch e := t.loadPair(at); {
		case e != 0 && e>>tagShift == m.id:
			t.storePair(at, m.id<<tagShift|uint64(m.off))
			return
		case e == 0:
			free = at
		}
		at += 2
	}
	if free != 0 {
		t.storePair(free, m.id<<tagShift|uint64(m.off))
	}
}

// unindex takes a node out, unless another has taken its place.
func (t *Table) unindex(m moved) {
	at := t.indexAt(m.id)
	for range indexWays {
		if t.loadPair(at) == m.id<<tagShift|uint64(m.off) {
			t.storePair(at, 0)
		}
		at += 2
	}
}

// newNode is writeNode for a node that decides k's bits from depth on.
func (t *Table) newNode(s *slots, def uint32, k key, depth int) (uint32, error) {
	word, err := t.writeNode(s, def)
	if id, ok := indexID(k, depth); ok && err == nil && t.jumps {
		t.moved = append(t.moved, moved{id: id, off: payload(word)})
	}
	return word, err
}

// putNode frees the node at off, that decides k's bits from depth on.
func (t *Table) putNode(off uint32, k key, depth int) {
	if id, ok := indexID(k, depth); ok && t.jumps {
		t.moved = append(t.moved, moved{id: id, off: off, gone: true})
	}
	t.put(t.nodeBlock(off))
}

// loadPair and storePair are load and store for two words at once; at is even.
func (a *arena) loadPair(at uint32) uint64 { return atomic.LoadUint64(a.pair(at)) }

func (a *arena) storePair(at uint32, pair uint64) { atomic.StoreUint64(a.pair(at), pair) }

func (a *arena) pair(at uint32) *uint64 { return (*uint64)(unsafe.Pointer(&a.words[at : at+2][0])) }
