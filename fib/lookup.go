package fib

import (
	"net/netip"
)

// Lookup is the value of the longest prefix that holds the address. Any
// number of goroutines may call it while one changes the table. Each single
// change shows to it wholly or not at all.
func (t *Table) Lookup(a netip.Addr) (value uint32, ok bool) {
	if a.Is4() != (t.family == ipv4) {
		return 0, false
	}
	if t.family == ipv4 {
		b := a.As4()
		value = t.Lookup4(uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3]))
	} else {
		k := keyOf(a)
		value = t.Lookup6(k.hi, k.lo)
	}
	return value, value != 0
}

// Lookup4 is Lookup for an IPv4 address as a number; 0 is no route. The
// table must be of that family.
func (t *Table) Lookup4(a uint32) uint32 {
	word := t.load(headWords + a>>(32-root4Bits))
	if isPointer(word) {
		word = t.pageSlot(word, int(a>>8&(pageSlots-1)))
	}
	if isPointer(word) {
		off := payload(word)
		if word = t.load(t.entryAt(off, int(a&0xff))); word == 0 {
			word = t.load(off + nodeDefault)
		}
	}
	if word == 0 {
		word = t.load(headDefault)
	}
	return payload(word)
}

// Lookup6 is Lookup for the upper and lower half of an IPv6 address; 0 is no
// route. The table must be of that family.
func (t *Table) Lookup6(hi, lo uint64) uint32 {
	k := key{hi, lo}
	if hi>>60 != 2 {
		return t.descend(k, t.load(headRest), 0, t.load(headDefault))
	}
	root := t.load(t.root + ipv6.rootSlot(k))
	for depth := indexDeep; depth >= indexShallow; depth -= 8 {
		id, _ := mixed(k, depth)
		off := t.indexed(id)
		if off == 0 {
			continue
		}
		word := t.load(t.entryAt(off, k.byteAt(depth)))
		if word == 0 {
			word = t.load(off + nodeDefault)
		}
		if found := t.descend(k, word, depth+8, 0); found != 0 {
			return found
		}
		break // what covers the node stands further up
	}
	return t.descend(k, root, root6From+root6Bits, t.load(headGlobal))
}

// descend looks up from a word on that decides at depth. best holds if
// nothing is found.
func (t *Table) descend(k key, word uint32, depth int, best uint32) uint32 {
	for isPointer(word) {
		off := payload(word)
		if def := t.load(off); def != 0 {
			best = def
		}
		if isJump(word) {
			depth = t.jumpLen(off)
			if k.common(t.jumpKey(off)) < depth {
				return payload(best)
			}
			word = t.load(off + jumpTarget)
			continue
		}
		word = t.load(t.entryAt(off, k.byteAt(depth)))
		depth += 8
	}
	if word != 0 {
		best = word
	}
	return payload(best)
}

// Kind says what stood at one step of a lookup.
type Kind int

const (
	KindDefault Kind = iota // the value outside of all structure
	KindRoot                // a slot of the root
	KindNode                // an entry of a node
	KindJump                // bits skipped, or found to differ
	KindPage                // a slot of a page
)

func (k Kind) String() string {
	return [...]string{"default", "root", "node", "jump", "page"}[k]
}

// Step is one access of a lookup to the structure.
type Step struct {
	Kind   Kind         `json:"Kind"`
	Offset uint32       `json:"Offset"` // of the word read, in words from the arena's start
	Depth  int          `json:"Depth"`  // bits of the address that were decided before
	Slot   int          `json:"Slot"`   // root, page and node: the index
	Match  netip.Prefix `json:"Match"`  // the longest prefix known after this step, if any
	Value  uint32       `json:"Value"`  // its value
}

// Explanation is a lookup taken apart.
type Explanation struct {
	Prefix netip.Prefix `json:"Prefix"` // the longest match; invalid if there is none
	Value  uint32       `json:"Value"`
	Steps  []Step       `json:"Steps"`
}

// Explain looks the address up and keeps notes. Its answer is Lookup's, but
// it must not run while the table is changed.
func (t *Table) Explain(a netip.Addr) Explanation {
	var e Explanation
	if a.Is4() != (t.family == ipv4) {
		return e
	}
	k := keyOf(a)
	note := func(s Step, word uint32, bits int) {
		if word != 0 && !isPointer(word) {
			e.Prefix = netip.PrefixFrom(k.first(bits).addr(t.family), bits)
			e.Value = payload(word)
		}
		s.Match, s.Value = e.Prefix, e.Value
		e.Steps = append(e.Steps, s)
	}
	if t.family == ipv4 {
		return t.explain4(k)
	}
	place, depth := t.start(k, t.family.width())
	head := uint32(headDefault)
	if t.family == ipv6 && t.family.inRoot(k) {
		head = headGlobal
	}
	def := t.load(head)
	note(Step{Kind: KindDefault, Offset: head}, def, tagOf(def)-1)
	word, from := t.load(place), 0
	if t.family.inRoot(k) {
		from = t.family.rootFrom()
		note(Step{Kind: KindRoot, Offset: place, Depth: from, Slot: int(t.family.rootSlot(k))}, word, from+tagOf(word))
	}
	// from is the bit at which the block began whose slot the next one took.
	for isPointer(word) {
		off := payload(word)
		def := t.load(off)
		if isJump(word) {
			n := t.jumpLen(off)
			note(Step{Kind: KindJump, Offset: off, Depth: depth}, def, from+tagOf(def))
			if k.common(t.jumpKey(off)) < n {
				break
			}
			word = t.load(off + jumpTarget)
			if !isPointer(word) {
				note(Step{Kind: KindJump, Offset: off + jumpTarget, Depth: n}, word, n)
				break
			}
			from, depth = n-8, n
			continue
		}
		if def != 0 {
			e.Prefix = netip.PrefixFrom(k.first(from+tagOf(def)).addr(t.family), from+tagOf(def))
			e.Value = payload(def)
		}
		slot := k.byteAt(depth)
		at := t.entryAt(off, slot)
		word = t.load(at)
		note(Step{Kind: KindNode, Offset: at, Depth: depth, Slot: slot}, word, depth+tagOf(word))
		from, depth = depth, depth+8
	}
	return e
}

// explain4 is Explain for the parts that only IPv4 has.
func (t *Table) explain4(k key) Explanation {
	var e Explanation
	note := func(s Step, word uint32, bits int) {
		if word != 0 {
			e.Prefix = netip.PrefixFrom(k.first(bits).addr(ipv4), bits)
			e.Value = payload(word)
		}
		s.Match, s.Value = e.Prefix, e.Value
		e.Steps = append(e.Steps, s)
	}
	note(Step{Kind: KindDefault, Offset: headDefault}, t.load(headDefault), 0)
	place := t.rootPlace(k)
	word := t.load(place)
	root := Step{Kind: KindRoot, Offset: place, Slot: int(t.family.rootSlot(k))}
	if !isPointer(word) {
		note(root, word, tagOf(word))
		return e
	}
	note(root, 0, 0)
	var p page
	t.readPage(place, &p)
	slot, _, _ := pageSpan(k, pageEnd)
	at, bits := run(t.pageBitmap(word), slot), root4Bits+int(p.length[slot])
	if isNarrow(word) {
		at /= 2
	}
	at += payload(word) + pageHeader
	if p.length[slot] == 0 {
		bits = tagOf(p.def)
	}
	note(Step{Kind: KindPage, Offset: at, Depth: root4Bits, Slot: slot}, p.value[slot], bits)
	if p.pointer[slot] == 0 {
		return e
	}
	low := k.byteAt(pageEnd)
	at = t.entryAt(payload(p.pointer[slot]), low)
	word = t.load(at)
	note(Step{Kind: KindNode, Offset: at, Depth: pageEnd, Slot: low}, word, pageEnd+tagOf(word))
	return e
}
