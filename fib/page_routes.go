package fib

// addToPage puts in a prefix of 19 to 24 bits.
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

// removeFromPage returns the slots of a prefix of 19 to 24 bits to the
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

// repaintPage returns what the page's own prefixes leave open to a word of the
// root, unless a longer prefix has it.
func (t *Table) repaintPage(place uint32, tag int, word uint32) error {
	old := t.load(place)
	def := t.load(t.noteAt(payload(old), noteDefault))
	if tagOf(def) > tag || def == word {
		return nil
	}
	if isNarrow(old) && payload(word) <= narrowMax {
		t.repaintNarrow(old, word)
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

// repaintNarrow is repaintPage for a page that stays narrow, run by run: a short
// prefix comes by most pages.
func (t *Table) repaintNarrow(page, word uint32) {
	off := payload(page)
	t.store(t.noteAt(off, noteDefault), word)
	for i, runs := uint32(0), uint32(t.pageRuns(page)); i < runs; {
		lengths := t.load(t.noteAt(off, noteLengths+i/8))
		for end := min(i+8, runs); i < end; i++ {
			if lengths&15 == 0 {
				at, shift := off+pageHeader+i/2, 16*(i&1)
				t.store(at, t.load(at)&^(narrowMax<<shift)|payload(word)<<shift)
			}
			lengths >>= 4
		}
	}
}
