package fib

// The index leads straight to the nodes of IPv6 in which most lookups end: those
// that decide the bits from 32 or from 40 on. A lookup asks it for both at once
// instead of waiting for one node after the other.
//
// A node's id is its place: bits 4 to 31 or 39 of the address, all under
// 2000::/4, and which of both. Mixed by a multiplication that loses nothing, it
// has 37 bits:
//
//	36            22 21         10 9          0
//	+---------------+-------------+------------+
//	|      set      |    mark     |            |
//	+---------------+-------------+------------+
//	                 \____ check, in the node ___/  (all of the lower 32)
//
// A set has two entries, each one word: the mark, and 20 bits for the cache line
// at which the node starts (zero: empty). A lookup that finds the mark in the
// set and the check in the node has found its node and no other one. Two nodes of
// one mark are not both in a set.
//
// Nodes that find their set full of larger ones, or that lie beyond 64 MiB, are
// not in the index. None has to be: a node that is not found there is reached from the root.
//
// It is as small as it is because each lookup touches two of its lines: twice
// the size, and it is out of the second-level cache.
const indexBits = 37

// mixed is the id of a node at this depth, if it belongs to the index.
func mixed(k key, depth int) (id uint64, ok bool) {
	if k.hi>>60 != 2 {
		return 0, false
	}
	place := k.hi << root6From >> root6From
	switch depth {
	case indexShallow:
		id = place >> (64 - indexShallow)
	case indexDeep:
		id = place>>(64-indexDeep) | indexDeepBit
	default:
		return 0, false
	}
	return id * indexMix & (1<<indexBits - 1), true
}

// indexed is the offset of the node with this id, or zero.
func (t *Table) indexed(id uint64) uint32 {
	at := t.indexAt(id)
	for i := range uint32(indexWays) {
		word := t.load(at + i)
		off := lineOf(word)
		if off != 0 && word>>indexLineBits == markOf(id) && t.load(off+nodeCheck) == uint32(id) {
			return off
		}
	}
	return 0
}

func (t *Table) indexAt(id uint64) uint32 {
	return t.root + 1<<root6Bits + uint32(id>>indexSetFrom)*indexWays
}

func markOf(id uint64) uint32 { return uint32(id>>indexMarkFrom) & (1<<(32-indexLineBits) - 1) }

// lineOf is the offset of the node that an entry leads to.
func lineOf(word uint32) uint32 { return word & (1<<indexLineBits - 1) * lineWords }

func entryOf(m moved) uint32 { return markOf(m.id)<<indexLineBits | m.off/lineWords }

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

// index enters a node: in the place of the one with its mark, if that is its
// own, or in a free one, or in that of a smaller one.
func (t *Table) index(m moved) {
	at, free, least := t.indexAt(m.id), uint32(0), t.entries(m.off)
	for i := range uint32(indexWays) {
		word := t.load(at + i)
		if word != 0 && word>>indexLineBits == markOf(m.id) {
			if t.load(lineOf(word)+nodeCheck) != uint32(m.id) {
				return // another's
			}
			free = at + i
			break
		}
		n := 0
		if word != 0 {
			n = t.entries(lineOf(word))
		}
		if n < least {
			free, least = at+i, n
		}
	}
	switch {
	case free == 0:
	case m.off/lineWords>>indexLineBits != 0:
		t.store(free, 0)
	default:
		t.store(free, entryOf(m))
	}
}

// unindex takes a node out, unless another has taken its place.
func (t *Table) unindex(m moved) {
	at := t.indexAt(m.id)
	for i := range uint32(indexWays) {
		if t.load(at+i) == entryOf(m) {
			t.store(at+i, 0)
		}
	}
}

// newNode is writeNode for a node that decides k's bits from depth on.
func (t *Table) newNode(s *slots, def uint32, k key, depth int) (uint32, error) {
	word, err := t.writeNode(s, def)
	if id, ok := mixed(k, depth); ok && err == nil && t.jumps {
		t.words[payload(word)+nodeCheck] = uint32(id)
		t.moved = append(t.moved, moved{id: id, off: payload(word)})
	}
	return word, err
}

// putNode frees the node at off, that decides k's bits from depth on.
func (t *Table) putNode(off uint32, k key, depth int) {
	if id, ok := mixed(k, depth); ok && t.jumps {
		t.moved = append(t.moved, moved{id: id, off: off, gone: true})
	}
	t.put(t.nodeBlock(off))
}
