package fib

import "math/bits"

// A page decides the six bits after IPv4's root. Like a node it stores each run
// of equal slots once: a bitmap of 64 bits says where runs start (slot 0 always
// starts one, so its bit stays clear), and one population count finds the
// entry. Where all entries are values of 16 bits the page is narrow; a larger
// value, or a node under one of its slots, makes it wide. Most pages lie within
// a cache line.
//
// A slot's value has no tag: where each prefix ends is noted at the other end
// of the arena, so that the pages, in which nearly all lookups end, take as
// little of the caches as can be. A run has one value and one such length.
const (
	pageSlots  = 1 << pageBits
	pageEnd    = root4Bits + pageBits
	pageBitmap = 0 // 64 bits, low half first
	narrowMax  = 1<<16 - 1
)

// The note of a page: the root's word for what the page's own prefixes leave
// open, then 4 bits a run, the prefix's bits within the page, 0 for the former.
// It has two words for each granule of the page. That is enough: c granules
// have 8c-4 runs at most, whose lengths take c words.
const (
	noteDefault = 0
	noteLengths = 1
	noteWords   = 2
)

// page is one taken apart.
type page struct {
	def     uint32
	length  [pageSlots]uint8
	value   [pageSlots]uint32
	pointer [pageSlots]uint32 // to a node
}

func (t *Table) pageBitmap(word uint32) uint64 {
	off := payload(word) + pageBitmap
	return uint64(t.load(off)) | uint64(t.load(off+1))<<32
}

// run is the number of the run that the slot is in.
func run(bitmap uint64, slot int) uint32 {
	return uint32(bits.OnesCount64(bitmap << (63 - slot)))
}

// pageEntry is entry i of the page that word points to.
func (t *Table) pageEntry(word, i uint32) uint32 {
	off := payload(word) + pageHeader
	if isNarrow(word) {
		return t.load(off+i/2) >> (16 * (i & 1)) & narrowMax
	}
	return t.load(off + i)
}

// pageSlot is what a slot of the page holds that word points to.
func (t *Table) pageSlot(word uint32, slot int) uint32 {
	return t.pageEntry(word, run(t.pageBitmap(word), slot))
}

// readPage reads the page under a slot of the root, or what it would be if
// there were one.
func (t *Table) readPage(place uint32, p *page) {
	word := t.load(place)
	if !isPointer(word) {
		*p = page{def: word}
		for i := range p.value {
			p.value[i] = payload(word)
		}
		return
	}
	off := payload(word)
	p.def = t.load(t.noteAt(off, noteDefault))
	bitmap := t.pageBitmap(word)
	n, entry, def, length := uint32(0), uint32(0), uint32(0), uint8(0)
	for i := range p.value {
		start := bitmap >> i & 1
		if n += uint32(start); i == 0 || start == 1 {
			entry, def, length = t.pageEntry(word, n), 0, t.noteLength(off, n)
			if isPointer(entry) {
				entry, def = t.load(payload(entry)+nodeDefault), entry
			}
		}
		p.length[i], p.value[i], p.pointer[i] = length, entry, def
	}
}

func (t *Table) noteLength(off, n uint32) uint8 {
	return uint8(t.load(t.noteAt(off, noteLengths+n/8)) >> (4 * (n % 8)) & 15)
}

func (p *page) slot(i int) uint32 {
	if p.pointer[i] != 0 {
		return p.pointer[i]
	}
	return p.value[i]
}

// unused reports whether the root's slot alone would do.
func (p *page) unused() bool {
	return p.length == [pageSlots]uint8{} && p.pointer == [pageSlots]uint32{}
}

// packed is a page as its block and its note hold it.
type packed struct {
	bitmap  uint64
	entries [pageSlots]uint32
	lengths [pageSlots / 8]uint32
	runs    int
	wide    bool // it must be
}

func (p *page) pack(to *packed) {
	*to = packed{}
	last, length, n := p.slot(0), p.length[0], 0
	to.entries[0], to.lengths[0] = last, uint32(length)
	widest := last
	for i := 1; i < pageSlots; i++ {
		if s := p.slot(i); s != last || p.length[i] != length {
			last, length = s, p.length[i]
			n++
			widest = max(widest, last)
			to.bitmap |= 1 << i
			to.entries[n] = last
			to.lengths[n/8] |= uint32(length) << (4 * (n % 8))
		}
	}
	to.runs = n + 1
	to.wide = widest > narrowMax
}

// words is the page's block, as wide as asked for.
func (p *packed) words(wide bool) (words [pageHeader + pageSlots]uint32, size int) {
	words[pageBitmap], words[pageBitmap+1] = uint32(p.bitmap), uint32(p.bitmap>>32)
	if wide {
		copy(words[pageHeader:], p.entries[:])
		return words, pageHeader + p.runs
	}
	for i := range p.runs {
		words[pageHeader+i/2] |= p.entries[i] << (16 * (i & 1))
	}
	return words, pageHeader + (p.runs+1)/2
}

// publish has the root's slot show p: in place where the runs and the form stay
// the same, else by a new block. To give what a page's own prefixes leave open
// to another prefix changes no run, so that it can fail only where a page has
// to become wide.
func (t *Table) publish(place uint32, p *page) error {
	old := t.load(place)
	if p.unused() {
		if old != p.def {
			t.store(place, p.def)
			t.dropPage(old)
		}
		return nil
	}
	to := &t.packed
	p.pack(to)
	same := isPointer(old) && t.pageBitmap(old) == to.bitmap
	if same && to.wide != isNarrow(old) {
		t.rewrite(payload(old), to.wide, p)
		return nil
	}
	words, size := to.words(to.wide)
	off, err := t.take(size)
	if err != nil {
		if !same || isNarrow(old) {
			return err
		}
		t.rewrite(payload(old), true, p) // no room to become narrow: stay
		return nil
	}
	copy(t.words[off:off+uint32(size)], words[:size])
	t.notePage(off, p.def)
	t.store(place, pointer(tagPage(to.wide), off))
	t.dropPage(old)
	t.pushPageDefaults(p)
	return nil
}

// rewrite stores what differs.
func (t *Table) rewrite(off uint32, wide bool, p *page) {
	t.notePage(off, p.def)
	words, size := t.packed.words(wide)
	for i, word := range words[:size] {
		if at := off + uint32(i); t.load(at) != word {
			t.store(at, word)
		}
	}
	t.pushPageDefaults(p)
}

func (t *Table) pushPageDefaults(p *page) {
	for i, word := range p.pointer {
		if word != 0 && t.load(payload(word)+nodeDefault) != p.value[i] {
			t.store(payload(word)+nodeDefault, p.value[i])
		}
	}
}

// notePage writes the note of the page at off, which is packed. Only writers
// and explanations read it.
func (t *Table) notePage(off, def uint32) {
	t.store(t.noteAt(off, noteDefault), def)
	for i := range (t.packed.runs + 7) / 8 {
		t.store(t.noteAt(off, noteLengths+uint32(i)), t.packed.lengths[i])
	}
}

// noteAt is where word i of the note of the page at off is: they lie from the
// arena's end down, in the order of their granules from the root's end up.
func (t *Table) noteAt(off, i uint32) uint32 {
	nth := (off - t.root - 1<<root4Bits) / granule4
	return uint32(len(t.words)) - Slack - 1 - nth*noteWords - i
}

func (t *Table) dropPage(word uint32) {
	if isPointer(word) {
		t.put(t.pageBlock(word))
	}
}

// pageRuns is how many runs the page has that word points to.
func (t *Table) pageRuns(word uint32) int { return int(run(t.pageBitmap(word), pageSlots-1)) + 1 }

func (t *Table) pageBlock(word uint32) block {
	size := t.pageRuns(word)
	if isNarrow(word) {
		size = (size + 1) / 2
	}
	return block{payload(word), uint16(t.class(pageHeader + size))}
}

// inPage reports whether a prefix ends in a page.
func (t *Table) inPage(n int) bool { return t.family == ipv4 && n > root4Bits && n <= pageEnd }

func (t *Table) rootPlace(k key) uint32 { return t.root + t.family.rootSlot(k) }

// pageSpan is the range of a page's slots that a prefix of n bits covers, and
// its length within the page.
func pageSpan(k key, n int) (from, to int, length uint8) {
	from = int(k.hi >> (64 - pageEnd) & (pageSlots - 1))
	return from, from + 1<<(pageEnd-n), uint8(n - root4Bits)
}

// shows reports whether a slot has the value of exactly this prefix.
func (p *page) shows(k key, n int) (value uint32, ok bool) {
	from, to, length := pageSpan(k, n)
	for i := from; i < to; i++ {
		if p.length[i] == length {
			return p.value[i], true
		}
	}
	return 0, false
}

func (t *Table) getInPage(k key, n int) (uint32, bool) {
	var p page
	t.readPage(t.rootPlace(k), &p)
	if v, ok := p.shows(k, n); ok {
		return v, true
	}
	return t.hidden.get(k, n)
}

// buildPage makes the page of sorted routes of more than 18 bits that share
// the first 18.
func (t *Table) buildPage(routes []route) error {
	var p page
	place := t.rootPlace(routes[0].key)
	t.readPage(place, &p)
	for left := routes; len(left) > 0; {
		r := left[0]
		from, to, length := pageSpan(r.key, min(r.len, pageEnd))
		if r.len <= pageEnd {
			for i := from; i < to; i++ {
				p.length[i], p.value[i] = length, r.value
			}
			left = left[1:]
			continue
		}
		n := group(left, pageEnd, pageEnd)
		word, err := t.subtree(left[:n], pageEnd, p.value[from])
		if err != nil {
			return err
		}
		p.pointer[from] = word
		left = left[n:]
	}
	for _, r := range routes {
		if r.len >= pageEnd {
			continue
		}
		if _, ok := p.shows(r.key, r.len); !ok {
			t.hidden.set(r.key, r.len, r.value)
		}
	}
	return t.publish(place, &p)
}
