package fib

import (
	"errors"
	"fmt"
	"net/netip"
)

// ErrDuplicate says that Build was given the same prefix twice.
var ErrDuplicate = errors.New("prefix given twice")

// Table is a longest-prefix-match table of one family in an arena of words. One
// goroutine at a time may change it or read its statistics; any number may call
// Lookup and LookupPrefix meanwhile, and so may other processes and eBPF programs
// that share the arena's memory.
type Table struct {
	arena
	family family
	root   uint32 // offset of the root
	top    uint32 // value of the /0
	count  int
	// inRoot has the prefixes that end within the root, by their position in
	// the binary tree over it; hidden those that no node shows.
	inRoot map[uint32]uint32
	hidden hidden
	jumps  bool // paths are compressed (IPv6)
	slots  slots
	packed packed
	path   []step
	moved  []moved // by the update under way
}

// New4 makes an empty table for IPv4 in words, which must be zero and stays
// in use by the table. A BPF array that is mapped into memory will do.
func New4(words []uint32) (*Table, error) { return newTable(ipv4, MinWords4, words) }

// New6 makes an empty table for IPv6 in words, as New4 does.
func New6(words []uint32) (*Table, error) { return newTable(ipv6, MinWords6, words) }

func newTable(f family, least int, words []uint32) (*Table, error) {
	if len(words) < least || len(words) > MaxWords {
		return nil, fmt.Errorf("make an IPv%d table in %d words: between %d and %d are needed", f, len(words), least, MaxWords)
	}
	t := &Table{
		family: f,
		root:   headWords,
		inRoot: map[uint32]uint32{},
		hidden: newHidden(),
		jumps:  f == ipv6,
	}
	t.words, t.granule = words, granule6
	if f == ipv4 {
		t.granule = granule4
	}
	t.next = headWords + 1<<f.rootBits()
	if f == ipv4 {
		t.noted = t.next
	} else {
		t.next += indexWords
	}
	t.store(headVersion, LayoutVersion)
	return t, nil
}

// Len is the number of prefixes in the table.
func (t *Table) Len() int { return t.count }

// Used is how many words of the arena are in use.
func (t *Table) Used() int {
	return int(t.next) + int(t.notes(uint64(t.next))) - t.freeWords - t.waiting
}

// Waiting is how many words wait to be released.
func (t *Table) Waiting() int { return t.waiting }

// Seal marks all blocks that updates have freed so far. Once no reader that
// was running at this moment runs any more (a grace period, for BPF programs
// membarrier(2)), Release with this mark makes them fit for use again.
// Updates may go on in between.
func (t *Table) Seal() (mark uint64) { return t.seal() }

// Release frees what the mark stands for. Calling it before the grace period
// has passed lets readers see wrong routes.
func (t *Table) Release(mark uint64) { t.release(min(mark, t.seal())) }

// Poison makes Release overwrite what it frees, so that a test of readers
// notices one that is let in too early.
func (t *Table) Poison() { t.poison = true }

// Insert gives the prefix the value, 1 to MaxValue, instead of any it had.
// Each address changes from its old answer to its new one in one step. The
// prefix's bits beyond its length are ignored. If the arena has no room the
// error is ErrFull and the table is unchanged.
func (t *Table) Insert(p netip.Prefix, value uint32) error {
	r, err := t.route(p, value)
	if err != nil {
		return fmt.Errorf("insert %s: %w", p, err)
	}
	if err := t.insert(r); err != nil {
		t.undo()
		return fmt.Errorf("insert %s: %w", p, err)
	}
	t.keep()
	return nil
}

// Delete removes the prefix, and says whether it was there. Like Insert it
// may have to write a new node and find no room for it.
func (t *Table) Delete(p netip.Prefix) (bool, error) {
	r, err := t.route(p, 1)
	if err != nil {
		return false, fmt.Errorf("delete %s: %w", p, err)
	}
	found, err := t.remove(r.key, r.len)
	if err != nil {
		t.undo()
		return false, fmt.Errorf("delete %s: %w", p, err)
	}
	t.keep()
	if found {
		t.count--
	}
	return found, nil
}

// Get is the value of exactly this prefix.
func (t *Table) Get(p netip.Prefix) (value uint32, ok bool) {
	r, err := t.route(p, 1)
	if err != nil {
		return 0, false
	}
	return t.get(r.key, r.len)
}

func (t *Table) route(p netip.Prefix, value uint32) (route, error) {
	if !p.IsValid() || p.Addr().Is4() != (t.family == ipv4) {
		return route{}, fmt.Errorf("not an IPv%d prefix", t.family)
	}
	if value == 0 || value > MaxValue {
		return route{}, fmt.Errorf("value %d is not between 1 and %d", value, MaxValue)
	}
	return route{keyOf(p.Addr()).first(p.Bits()), p.Bits(), value}, nil
}

// step is a block on the way down: the word that points to it and where that
// word stands. depth is the first bit that the block decides.
type step struct {
	place uint32
	off   uint32
	depth int
	jump  bool
}

// walk goes down from the root to the block that a prefix of n bits belongs
// to, and leaves the way in t.path. The last step is
//   - a node in whose slots the prefix ends,
//   - a node whose slot for it holds no pointer,
//   - a jump that is not on the prefix's way, or that is the prefix itself;
//
// and there is none if the starting word is not a pointer. Prefixes that end
// within the root are not for walk.
func (t *Table) walk(k key, n int) {
	place, depth := t.start(k, n)
	t.path = t.path[:0]
	for {
		word := t.load(place)
		if !isPointer(word) {
			return
		}
		off := payload(word)
		t.path = append(t.path, step{place, off, depth, isJump(word)})
		if isJump(word) {
			length := t.jumpLen(off)
			if !isPointer(t.load(off+jumpTarget)) || n <= length || k.common(t.jumpKey(off)) < length {
				return
			}
			place, depth = off+jumpTarget, length
			continue
		}
		if n <= depth+8 {
			return
		}
		place = t.entryAt(off, k.byteAt(depth))
		depth += 8
	}
}

// start is the word from which the descent to a prefix of n bits starts, and
// the bit at which it does.
func (t *Table) start(k key, n int) (place uint32, depth int) {
	if t.family == ipv4 {
		// The rest of IPv4 is empty: it stands for a slot without a node.
		place := uint32(headRest)
		if word := t.load(t.rootPlace(k)); tagOf(word) == tagWide {
			slot, _, _ := pageSpan(k, pageEnd)
			place = payload(word) + pageHeader + run(t.pageBitmap(word), slot)
		}
		return place, pageEnd
	}
	if t.family.inRoot(k) && n > t.family.rootFrom() {
		return t.root + t.family.rootSlot(k), t.family.rootEnd()
	}
	return headRest, 0
}

// endsInRoot reports whether a prefix is kept by the root's slots alone.
func (t *Table) endsInRoot(k key, n int) bool {
	return t.family.inRoot(k) && n > t.family.rootFrom() && n <= t.family.rootEnd()
}

func (t *Table) get(k key, n int) (uint32, bool) {
	if n == 0 {
		return t.top, t.top != 0
	}
	if t.endsInRoot(k, n) {
		v, ok := t.inRoot[t.rootIndex(k, n)]
		return v, ok
	}
	if t.inPage(n) {
		return t.getInPage(k, n)
	}
	t.walk(k, n)
	if len(t.path) == 0 {
		return 0, false
	}
	s := t.path[len(t.path)-1]
	if s.jump {
		if t.isPrefixJump(s.off, k, n) {
			return payload(t.load(s.off + jumpTarget)), true
		}
		return 0, false
	}
	if n > s.depth+8 {
		return 0, false
	}
	if v, ok := t.hidden.get(k, n); ok {
		return v, true
	}
	t.expand(s.off, &t.slots)
	from, to := span(k, n, s.depth)
	for i := from; i < to; i++ {
		if tagOf(t.slots.value[i]) == n-s.depth {
			return payload(t.slots.value[i]), true
		}
	}
	return 0, false
}

// isPrefixJump reports whether the jump at off leads to the value of exactly
// this prefix.
func (t *Table) isPrefixJump(off uint32, k key, n int) bool {
	return t.jumpLen(off) == n && t.jumpKey(off) == k && !isPointer(t.load(off+jumpTarget))
}

// span is the range of slots that a prefix of n bits covers in a node.
func span(k key, n, depth int) (from, to int) {
	from = k.byteAt(depth)
	return from, from + 1<<(8-(n-depth))
}
