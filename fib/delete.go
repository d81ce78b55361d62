package fib

import "errors"

func (t *Table) remove(k key, n int) (found bool, err error) {
	switch {
	case n == 0:
		found = t.top != 0
		t.top = 0
	case t.endsInRoot(k, n):
		return t.removeFromRoot(k, n)
	case t.inPage(n):
		return t.removeFromPage(k, n)
	default:
		found, err = t.removeBelow(k, n)
	}
	if n <= t.family.rootFrom() && err == nil {
		t.setDefaults()
	}
	return found, err
}

// removeFromRoot returns the prefix's slots back to the nearest shorter one.
func (t *Table) removeFromRoot(k key, n int) (found bool, err error) {
	at, tag := t.rootIndex(k, n), n-t.family.rootFrom()
	if _, ok := t.inRoot[at]; !ok {
		return false, nil
	}
	if err := t.repaintRoot(k, tag, t.rootWord(at>>1, tag-1)); err != nil {
		return false, errors.Join(err, t.repaintRoot(k, tag, t.rootWord(at, tag)))
	}
	delete(t.inRoot, at)
	return true, nil
}

func (t *Table) removeBelow(k key, n int) (bool, error) {
	t.walk(k, n)
	if len(t.path) == 0 {
		return false, nil
	}
	at := t.path[len(t.path)-1]
	if at.jump {
		if !t.isPrefixJump(at.off, k, n) {
			return false, nil
		}
		if err := t.dropSubtree(len(t.path)-1, k); err != nil {
			return false, err
		}
		t.put(t.jumpBlock(at.off))
		return true, nil
	}
	if n > at.depth+8 {
		return false, nil
	}
	s := &t.slots
	t.expand(at.off, s)
	if _, ok := s.shows(k, n, at.depth); !ok {
		_, ok = t.hidden.get(k, n)
		t.hidden.remove(k, n)
		return ok, nil
	}
	cover, wasHidden := t.cover(s, k, n, at.depth)
	from, to := span(k, n, at.depth)
	for i := from; i < to; i++ {
		if tagOf(s.value[i]) == n-at.depth {
			s.value[i] = cover
		}
	}
	if err := t.shrink(len(t.path)-1, s, k); err != nil {
		return false, err
	}
	if wasHidden {
		up := at.depth + tagOf(cover)
		t.hidden.remove(k.first(up), up)
	}
	return true, nil
}

// cover finds the longest shorter prefix over k that ends in the same node,
// as the word its slots have.
func (t *Table) cover(s *slots, k key, n, depth int) (word uint32, wasHidden bool) {
	for up := n - 1; up > depth; up-- {
		if v, ok := t.hidden.get(k.first(up), up); ok {
			return valueWord(up-depth, v), true
		}
		if word, ok := s.shows(k.first(up), up, depth); ok {
			return word, false
		}
	}
	return 0, false
}

// dropSubtree takes the block at path[i] out, under which no prefix is left. It
// is the caller's to free.
func (t *Table) dropSubtree(i int, k key) error {
	at := t.path[i]
	if i == 0 && t.family == ipv4 {
		return t.dropUnderPage(k)
	}
	if i == 0 {
		t.store(at.place, t.load(at.off)) // its default
		return nil
	}
	parent := t.path[i-1]
	if parent.jump {
		if err := t.dropSubtree(i-1, k); err != nil {
			return err
		}
		t.put(t.jumpBlock(parent.off))
		return nil
	}
	s := &t.slots
	t.expand(parent.off, s)
	s.pointer[k.byteAt(parent.depth)] = 0
	return t.shrink(i-1, s, k)
}

// shrink writes the slots in the place of the node at path[i], in the
// smallest form that holds them: a node that only leads on is no node, nor one
// with a long prefix alone.
func (t *Table) shrink(i int, s *slots, k key) error {
	at := t.path[i]
	if s.empty() {
		if err := t.dropSubtree(i, k); err != nil {
			return err
		}
		t.putNode(at.off, k, at.depth)
		return nil
	}
	pointers, prefixes, slot := 0, 0, 0
	if t.jumps {
		pointers, prefixes, slot = s.census()
	}
	if pointers+prefixes != 1 || prefixes == 1 && at.depth < nodesTo {
		return t.replaceNode(at, s, k)
	}
	here := k.first(at.depth).withByte(at.depth, slot)
	if prefixes == 1 {
		n := at.depth + tagOf(s.value[slot])
		return t.foldIntoJump(i, s, n, here.first(n), valueWord(1, payload(s.value[slot])))
	}
	word := s.pointer[slot]
	if !isJump(word) {
		return t.foldIntoJump(i, s, at.depth+8, here, word)
	}
	off := payload(word)
	err := t.foldIntoJump(i, s, t.jumpLen(off), t.jumpKey(off), t.load(off+jumpTarget))
	if err == nil {
		t.put(t.jumpBlock(off))
	}
	return err
}

// foldIntoJump puts a jump over the first n bits of k in the place of the
// node at path[i], and of the jump that leads to it if there is one.
func (t *Table) foldIntoJump(i int, s *slots, n int, k key, target uint32) error {
	at := t.path[i]
	place, def := at.place, t.load(at.off+nodeDefault)
	underJump := i > 0 && t.path[i-1].jump
	if underJump {
		place, def = t.path[i-1].place, t.load(t.path[i-1].off+jumpDefault)
	}
	off, err := t.writeJump(def, n, k, target)
	if err != nil {
		return err
	}
	t.store(place, pointer(tagJump, off))
	t.putNode(at.off, k, at.depth)
	if underJump {
		t.put(t.jumpBlock(t.path[i-1].off))
	}
	t.pushDefaults(s)
	return nil
}

func (s *slots) empty() bool {
	return s.value == [256]uint32{} && s.pointer == [256]uint32{}
}

// census counts a node's pointers and the prefixes its slots show, and names
// a slot that holds the last thing counted.
func (s *slots) census() (pointers, prefixes, slot int) {
	last := uint32(0)
	for i := range 256 {
		word := s.value[i]
		starts := word != 0 && (word != last || i&(1<<(8-tagOf(word))-1) == 0)
		if starts {
			prefixes++
		}
		if s.pointer[i] != 0 {
			pointers++
		}
		if starts || s.pointer[i] != 0 {
			slot = i
		}
		last = word
	}
	return pointers, prefixes, slot
}
