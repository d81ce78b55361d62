package fib

// A page decides the four bits after IPv4's root, 16 slots, without any
// search. Where all its slots are values of 16 bits it is narrow and takes
// half a cache line; a larger value, or a node under one of its slots, makes it
// wide. Slots are changed in place, a store each. A slot's value has no tag:
// where each prefix ends is noted at the other end of the arena, so that the
// pages, in which nearly all lookups end, take as little of the caches as can be.
const (
	pageBits   = 4
	pageSlots  = 1 << pageBits
	pageEnd    = root4Bits + pageBits
	narrowMax  = 1<<16 - 1
	narrowSize = pageSlots / 2 // words
	wideSize   = pageSlots
)

// The note of a page: the root's word for what the page's own prefixes leave
// open, then 4 bits a slot, the prefix's bits within the page, 0 for the former.
const (
	noteDefault = 0
	noteLengths = 1
	noteWords   = 3
)

// page is one taken apart.
type page struct {
	def     uint32
	length  [pageSlots]uint8
	value   [pageSlots]uint32
	pointer [pageSlots]uint32 // to a node
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
	note := t.noteAt(off)
	p.def = t.load(note + noteDefault)
	lengths := [2]uint32{t.load(note + noteLengths), t.load(note + noteLengths + 1)}
	for i := range p.value {
		p.length[i] = uint8(lengths[i/8] >> (4 * (i % 8)) & 15)
		p.value[i], p.pointer[i] = t.pageSlot(word, i), 0
		if isPointer(p.value[i]) {
			p.pointer[i] = p.value[i]
			p.value[i] = t.load(payload(p.pointer[i]) + nodeDefault)
		}
	}
}

// pageSlot is what a slot of the page holds that word points to.
func (t *Table) pageSlot(word uint32, slot int) uint32 {
	off := payload(word)
	if isNarrow(word) {
		return t.load(off+uint32(slot)/2) >> (16 * (slot & 1)) & narrowMax
	}
	return t.load(off + uint32(slot))
}

func (p *page) slot(i int) uint32 {
	if p.pointer[i] != 0 {
		return p.pointer[i]
	}
	return p.value[i]
}

// unused tells whether the root's slot alone would do.
func (p *page) unused() bool {
	return p.length == [pageSlots]uint8{} && p.pointer == [pageSlots]uint32{}
}

// wide tells whether the page must be.
func (p *page) wide() bool {
	for i := range pageSlots {
		if p.slot(i) > narrowMax {
			return true
		}
	}
	return false
}

// packed gives the page's words.
func (p *page) packed(wide bool) (words [wideSize]uint32, size uint32) {
	for i := range pageSlots {
		if wide {
			words[i] = p.slot(i)
		} else {
			words[i/2] |= p.slot(i) << (16 * (i & 1))
		}
	}
	if wide {
		return words, wideSize
	}
	return words, narrowSize
}

// publish has the root's slot show p: in place where the form stays the same,
// else by a new block. Only a page that has to become larger can fail.
func (t *Table) publish(place uint32, p *page) error {
	old := t.load(place)
	if p.unused() {
		if old != p.def {
			t.store(place, p.def)
			t.dropPage(old)
		}
		return nil
	}
	wide := p.wide()
	words, size := p.packed(wide)
	if isPointer(old) && wide != isNarrow(old) {
		t.rewrite(payload(old), words[:size], p)
		return nil
	}
	off, err := t.take(int(size), wide)
	if err != nil {
		if !isPointer(old) || isNarrow(old) {
			return err
		}
		words, size = p.packed(true) // no room to become narrow: stay
		t.rewrite(payload(old), words[:size], p)
		return nil
	}
	copy(t.words[off:off+size], words[:size])
	t.notePage(off, p)
	t.store(place, pointer(tagPage(wide), off))
	t.dropPage(old)
	t.pushPageDefaults(p)
	return nil
}

// rewrite stores what differs.
func (t *Table) rewrite(off uint32, words []uint32, p *page) {
	t.notePage(off, p)
	for i, word := range words {
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

// notePage writes the note of the page at off. Only writers and explanations
// read it.
func (t *Table) notePage(off uint32, p *page) {
	note := [noteWords]uint32{noteDefault: p.def}
	for i, length := range p.length {
		note[noteLengths+i/8] |= uint32(length) << (4 * (i % 8))
	}
	at := t.noteAt(off)
	for i, word := range note {
		t.store(at+uint32(i), word)
	}
}

// noteAt is where the note of the page at off is: they lie from the arena's
// end down, one for each granule from the root's end up.
func (t *Table) noteAt(off uint32) uint32 {
	nth := (off-t.root-1<<root4Bits)/granule + 1
	return uint32(len(t.words)) - Slack - nth*noteWords
}

func (t *Table) dropPage(word uint32) {
	if isPointer(word) {
		t.put(pageBlock(word))
	}
}

func pageBlock(word uint32) block {
	if isNarrow(word) {
		return block{payload(word), narrowSize / granule}
	}
	return block{payload(word), wideSize / granule}
}

// inPage tells whether a prefix ends in a page.
func (t *Table) inPage(n int) bool { return t.family == ipv4 && n > root4Bits && n <= pageEnd }

func (t *Table) rootPlace(k key) uint32 { return t.root + t.family.rootSlot(k) }

// pageSpan is the range of a page's slots that a prefix of n bits covers, and
// its length within the page.
func pageSpan(k key, n int) (from, to int, length uint8) {
	from = int(k.hi >> (64 - pageEnd) & (pageSlots - 1))
	return from, from + 1<<(pageEnd-n), uint8(n - root4Bits)
}

// shows tells whether a slot has the value of exactly this prefix.
func (p *page) shows(k key, n int) (value uint32, ok bool) {
	from, to, length := pageSpan(k, n)
	for i := from; i < to; i++ {
		if p.length[i] == length {
			return p.value[i], true
		}
	}
	return 0, false
}

// addToPage puts in a prefix of 21 to 24 bits.
func (t *Table) addToPage(r route) (existed bool, err error) {
	var p page
	place := t.rootPlace(r.key)
	t.readPage(place, &p)
	from, to, length := pageSpan(r.key, r.len)
	shown, over, overLength := false, uint32(0), uint8(0)
	for i := from; i < to; i++ {
		was := p.length[i]
		if was > length {
			continue
		}
		shown = true
		existed = existed || was == length
		if was < length {
			over, overLength = p.value[i], was
		}
		p.length[i], p.value[i] = length, r.value
	}
	if !shown {
		_, existed = t.hidden.get(r.key, r.len)
		t.hidden.set(r.key, r.len, r.value)
		return existed, nil
	}
	if err := t.publish(place, &p); err != nil {
		return false, err
	}
	if overLength != 0 {
		n := root4Bits + int(overLength)
		if _, ok := p.shows(r.key.first(n), n); !ok {
			t.hidden.set(r.key.first(n), n, over)
		}
	}
	return existed, nil
}

// addUnderPage starts a node under a slot that has none, for a prefix of more
// than 24 bits.
func (t *Table) addUnderPage(r route) error {
	var p page
	place := t.rootPlace(r.key)
	t.readPage(place, &p)
	slot, _, _ := pageSpan(r.key, pageEnd)
	word, err := t.single(r, pageEnd, p.value[slot])
	if err != nil {
		return err
	}
	p.pointer[slot] = word
	return t.publish(place, &p)
}

// dropUnderPage takes the node away that is under k's slot.
func (t *Table) dropUnderPage(k key) error {
	var p page
	place := t.rootPlace(k)
	t.readPage(place, &p)
	slot, _, _ := pageSpan(k, pageEnd)
	p.pointer[slot] = 0
	return t.publish(place, &p)
}

// removeFromPage gives the slots of a prefix of 21 to 24 bits back to the
// nearest shorter one.
func (t *Table) removeFromPage(k key, n int) (found bool, err error) {
	var p page
	place := t.rootPlace(k)
	t.readPage(place, &p)
	if _, ok := p.shows(k, n); !ok {
		_, ok = t.hidden.get(k, n)
		t.hidden.remove(k, n)
		return ok, nil
	}
	cover, coverBits, wasHidden := payload(p.def), root4Bits, false
	for up := n - 1; up > root4Bits; up-- {
		v, ok := t.hidden.get(k.first(up), up)
		if wasHidden = ok; !ok {
			v, ok = p.shows(k.first(up), up)
		}
		if ok {
			cover, coverBits = v, up
			break
		}
	}
	from, to, length := pageSpan(k, n)
	for i := from; i < to; i++ {
		if p.length[i] == length {
			p.length[i], p.value[i] = uint8(coverBits-root4Bits), cover
		}
	}
	if err := t.publish(place, &p); err != nil {
		return false, err
	}
	if wasHidden {
		t.hidden.remove(k.first(coverBits), coverBits)
	}
	return true, nil
}

// repaintPage gives what the page's own prefixes leave open to a word of the
// root, unless a longer prefix has it.
func (t *Table) repaintPage(place uint32, tag int, word uint32) error {
	def := t.load(t.noteAt(payload(t.load(place))) + noteDefault)
	if tagOf(def) > tag || def == word {
		return nil
	}
	var p page
	t.readPage(place, &p)
	p.def = word
	for i, length := range p.length {
		if length == 0 {
			p.value[i] = payload(word)
		}
	}
	return t.publish(place, &p)
}

func (t *Table) getInPage(k key, n int) (uint32, bool) {
	var p page
	t.readPage(t.rootPlace(k), &p)
	if v, ok := p.shows(k, n); ok {
		return v, true
	}
	return t.hidden.get(k, n)
}

// buildPage makes the page of sorted routes of more than 20 bits that share
// the first 20.
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
