package fib

import (
	"math/bits"
)

// The layout of the arena, in words of 32 bits. What programs have to know of it
// too stands in bpf/lib/fib.h, and is generated from there.
//
// A word that says where an address goes next, wherever it stands (a root, a
// node's entries, a jump's target), is
//
//	31      27 26                       0
//	+--------+--------------------------+
//	|  tag   |        payload           |
//	+--------+--------------------------+
//
//	0        nothing here: what was found before stands; in a page's slots
//	         also a value
//	1..20    a value (payload), of a prefix that ends tag bits into this
//	         root or node
//	28       a wide page at word offset payload
//	29       a narrow page
//	30       a jump
//	31       a node
const (
	payloadMask = 1<<tagShift - 1

	// MaxValue is the largest value a prefix can have. Zero is not a value.
	MaxValue = payloadMask
	// MaxWords bounds the arena: offsets fit a payload (512 MiB).
	MaxWords = 1 << tagShift
)

// The arena's head is one cache line; the root follows it.
const headVersion = 0 // LayoutVersion

// A node decides eight bits. Its 256 slots are cut into runs of equal words;
// entry i is the word of run i, and bit s of the bitmap says that a run
// starts at slot s (slot 0 always starts one, so its bit stays clear).
const nodeDefault = 0 // value word of the slot that the node took over

// A jump skips bits that all prefixes behind it share.
const (
	jumpDefault = 0 // value word of the slot that the jump took over
	jumpWords   = 8
)

// A family's root decides the first bits by plain indexing.
type family int

const (
	ipv4 family = 4
	ipv6 family = 6
)

// nodesTo: IPv6 prefixes of up to so many bits end in a node, also where one is
// alone. That costs 32 bytes more than a jump, and they are those that the
// Internet is routed by: the index leads to their nodes.
const nodesTo = indexDeep + 8

func (f family) width() int {
	if f == ipv4 {
		return 32
	}
	return 128
}

func (f family) rootBits() int {
	if f == ipv4 {
		return root4Bits
	}
	return root6Bits
}

func (f family) rootFrom() int {
	if f == ipv4 {
		return 0
	}
	return root6From
}

func (f family) rootEnd() int { return f.rootFrom() + f.rootBits() }

// inRoot reports whether the root decides for this address; the tree at
// headRest does for the others.
func (f family) inRoot(k key) bool { return f == ipv4 || k.hi>>60 == 2 }

// rootSlot is the address's index in the root.
func (f family) rootSlot(k key) uint32 {
	if f == ipv4 {
		return uint32(k.hi >> (64 - root4Bits))
	}
	return uint32(k.hi>>(64-root6From-root6Bits)) & (1<<root6Bits - 1)
}

func tagOf(word uint32) int            { return int(word >> tagShift) }
func payload(word uint32) uint32       { return word & payloadMask }
func isPointer(word uint32) bool       { return word >= tagWide<<tagShift }
func isNarrow(word uint32) bool        { return tagOf(word) == tagNarrow }
func isJump(word uint32) bool          { return tagOf(word) == tagJump }
func valueWord(t int, v uint32) uint32 { return uint32(t)<<tagShift | v }
func pointer(t int, off uint32) uint32 { return uint32(t)<<tagShift | off }

func tagPage(wide bool) int {
	if wide {
		return tagWide
	}
	return tagNarrow
}

// entryAt is the offset of the entry for slot s of the node at off.
func (a *arena) entryAt(off uint32, s int) uint32 {
	w := uint32(s) >> 6
	at := off + nodeBitmap + 2*w
	bitmap := uint64(a.words[at]) | uint64(a.words[at+1])<<32
	rank := uint32(bits.OnesCount64(bitmap << (63 - uint(s)&63)))
	return off + nodeHeader + a.words[off+nodeRanks]>>(8*w)&0xff + rank
}

// entries is how many runs the node at off has.
func (a *arena) entries(off uint32) int {
	return int(a.entryAt(off, 255)-off-nodeHeader) + 1
}

// nodeWords is the size of a node with n entries: whole cache lines in IPv6,
// where lookups pass many.
func (a *arena) nodeWords(n int) int {
	if n += nodeHeader; a.granule == granule6 {
		n = (n + lineWords - 1) / lineWords * lineWords
	}
	return n
}

func (a *arena) nodeBlock(off uint32) block {
	return block{off, uint16(a.class(a.nodeWords(a.entries(off))))}
}

func (a *arena) jumpBlock(off uint32) block { return block{off, uint16(a.class(jumpWords))} }

func (a *arena) jumpKey(off uint32) key {
	w := a.words[off+jumpKey:]
	return key{uint64(w[0]) | uint64(w[1])<<32, uint64(w[2]) | uint64(w[3])<<32}
}

func (a *arena) jumpLen(off uint32) int { return int(a.words[off+jumpLength]) }

// slots is a node taken apart: for each slot the value word that holds there,
// and the pointer if deeper prefixes lie under it.
type slots struct {
	value   [256]uint32
	pointer [256]uint32
}

// expand reads the node at off. The value word under a pointer is the
// default of what it points to.
func (a *arena) expand(off uint32, s *slots) {
	at := off + nodeHeader
	for w := range uint32(4) {
		bitmap := uint64(a.words[off+nodeBitmap+2*w]) | uint64(a.words[off+nodeBitmap+2*w+1])<<32
		for i := 64 * w; i < 64*(w+1); i++ {
			at += uint32(bitmap & 1)
			bitmap >>= 1
			word, ptr := a.load(at), uint32(0)
			if isPointer(word) {
				ptr, word = word, a.load(payload(word))
			}
			s.value[i], s.pointer[i] = word, ptr
		}
	}
}

// writeNode encodes s into a new block with the given default, and gives the
// word that points to it.
func (a *arena) writeNode(s *slots, def uint32) (uint32, error) {
	var entries [256]uint32
	var bitmap [4]uint64
	var ranks uint32
	last := s.word(0)
	entries[0] = last
	n := 0 // of the last entry
	for w := range bitmap {
		ranks |= uint32(n) << (8 * w)
		starts := uint64(0)
		for i := range 64 {
			word := s.word(64*w + i)
			start := 0 // without a branch: runs are as good as random
			if word != last {
				start = 1
			}
			n += start
			starts |= uint64(start) << i
			entries[n&255], last = word, word
		}
		bitmap[w] = starts
	}
	n++
	off, err := a.take(a.nodeWords(n))
	if err != nil {
		return 0, err
	}
	b := a.words[off : off+nodeHeader+uint32(n)]
	b[nodeDefault], b[nodeRanks], b[nodeCheck] = def, ranks, 0
	for i, w := range bitmap {
		b[nodeBitmap+2*i], b[nodeBitmap+2*i+1] = uint32(w), uint32(w>>32)
	}
	copy(b[nodeHeader:], entries[:n])
	return pointer(tagNode, off), nil
}

// word is what a slot's entry holds.
func (s *slots) word(i int) uint32 {
	if ptr := s.pointer[i]; ptr != 0 {
		return ptr
	}
	return s.value[i]
}

// writeJump makes a jump over the first n bits of k.
func (a *arena) writeJump(def uint32, n int, k key, target uint32) (uint32, error) {
	off, err := a.take(jumpWords)
	if err != nil {
		return 0, err
	}
	k = k.first(n)
	b := a.words[off : off+jumpWords]
	b[jumpDefault], b[jumpLength] = def, uint32(n)
	b[jumpKey], b[jumpKey+1] = uint32(k.hi), uint32(k.hi>>32)
	b[jumpKey+2], b[jumpKey+3] = uint32(k.lo), uint32(k.lo>>32)
	b[jumpTarget], b[jumpTarget+1] = target, 0
	return off, nil
}
