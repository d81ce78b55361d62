package fib

import "errors"

func (t *Table) insert(r route) error {
	existed, err := t.add(r)
	if err != nil {
		return err
	}
	if !existed {
		t.count++
	}
	if r.len <= t.family.rootFrom() {
		t.setDefaults()
	}
	return nil
}

func (t *Table) add(r route) (existed bool, err error) {
	if r.len == 0 {
		existed = t.top != 0
		t.top = r.value
		return existed, nil
	}
	if t.endsInRoot(r.key, r.len) {
		return t.addToRoot(r)
	}
	if t.inPage(r.len) {
		return t.addToPage(r)
	}
	t.walk(r.key, r.len)
	if len(t.path) == 0 {
		if t.family == ipv4 {
			return false, t.addUnderPage(r)
		}
		place, depth := t.start(r.key, r.len)
		word, err := t.single(r, depth, t.load(place))
		if err == nil {
			t.store(place, word)
		}
		return false, err
	}
	s := t.path[len(t.path)-1]
	switch {
	case s.jump && t.isPrefixJump(s.off, r.key, r.len):
		t.store(s.off+jumpTarget, valueWord(1, r.value))
		return true, nil
	case s.jump:
		return false, t.splitJump(s, r)
	case r.len > s.depth+8:
		return false, t.addUnderNode(s, r)
	}
	return t.addToNode(s, r)
}

// single makes the subtree of one prefix, from depth down. With path
// compression it is a node, under a jump if need be, or for a long prefix a
// jump alone; else a chain of nodes. def is the value word that
// the subtree takes the place of.
func (t *Table) single(r route, depth int, def uint32) (uint32, error) {
	var s slots
	switch {
	case t.jumps && r.len > nodesTo:
		off, err := t.writeJump(def, r.len, r.key, valueWord(1, r.value))
		return pointer(tagJump, off), err
	case t.jumps:
		last := (r.len - 1) &^ 7
		s.paint(r, last)
		return t.nodeUnderJump(&s, def, depth, last, r.key)
	}
	slot := r.key.byteAt(depth)
	if r.len <= depth+8 {
		s.paint(r, depth)
	} else {
		below, err := t.single(r, depth+8, 0)
		if err != nil {
			return 0, err
		}
		s.pointer[slot] = below
	}
	return t.newNode(&s, def, r.key, depth)
}

// painted tells what paint found in a prefix's span.
type painted struct {
	over    uint32 // a word that was painted over, of the nearest cover
	shown   bool   // there was a slot without a longer prefix
	existed bool   // the prefix had slots before
}

// paint gives the prefix all slots of its span that no longer prefix has.
func (s *slots) paint(r route, depth int) (p painted) {
	from, to := span(r.key, r.len, depth)
	tag := r.len - depth
	word := valueWord(tag, r.value)
	for i := from; i < to; i++ {
		was := tagOf(s.value[i])
		if was > tag {
			continue
		}
		p.shown = true
		p.existed = p.existed || was == tag
		if was < tag {
			p.over = s.value[i]
		}
		s.value[i] = word
	}
	return p
}

// shows reports whether a slot of the prefix's span has a value of its length.
func (s *slots) shows(k key, n, depth int) (word uint32, ok bool) {
	from, to := span(k, n, depth)
	for i := from; i < to; i++ {
		if tagOf(s.value[i]) == n-depth {
			return s.value[i], true
		}
	}
	return 0, false
}

// addUnderNode starts a subtree under a slot of the node that has none.
func (t *Table) addUnderNode(at step, r route) error {
	s := &t.slots
	t.expand(at.off, s)
	slot := r.key.byteAt(at.depth)
	word, err := t.single(r, at.depth+8, s.value[slot])
	if err != nil {
		return err
	}
	s.pointer[slot] = word
	return t.replaceNode(at, s, r.key)
}

// addToNode puts the prefix into the slots of the node.
func (t *Table) addToNode(at step, r route) (existed bool, err error) {
	s := &t.slots
	t.expand(at.off, s)
	p := s.paint(r, at.depth)
	if !p.shown {
		_, existed = t.hidden.get(r.key, r.len)
		t.hidden.set(r.key, r.len, r.value)
		return existed, nil
	}
	if err := t.replaceNode(at, s, r.key); err != nil {
		return false, err
	}
	if p.over != 0 {
		n := at.depth + tagOf(p.over)
		if _, ok := s.shows(r.key.first(n), n, at.depth); !ok {
			t.hidden.set(r.key.first(n), n, payload(p.over))
		}
	}
	return p.existed, nil
}

// replaceNode writes the slots as a new node in the place of the one at the
// end of the path, on k's way.
func (t *Table) replaceNode(at step, s *slots, k key) error {
	word, err := t.newNode(s, t.load(at.off+nodeDefault), k, at.depth)
	if err != nil {
		return err
	}
	t.store(at.place, word)
	t.putNode(at.off, k, at.depth)
	t.pushDefaults(s)
	return nil
}

// pushDefaults hands the values of slots that are pointers down to what they
// point to. An address below sees its answer change at this store, whether
// it came through the old node or the new one.
func (t *Table) pushDefaults(s *slots) {
	for i, word := range s.pointer {
		if word != 0 && t.load(payload(word)) != s.value[i] {
			t.store(payload(word), s.value[i])
		}
	}
}

// splitJump puts a node where the prefix and the jump part ways, below a
// shorter jump if there are bits left to skip.
func (t *Table) splitJump(at step, r route) error {
	k, length, target := t.jumpKey(at.off), t.jumpLen(at.off), t.load(at.off+jumpTarget)
	def := t.load(at.off + jumpDefault)
	depth := min(k.common(r.key), length-1, r.len-1) &^ 7
	s := &t.slots
	*s = slots{}
	if r.len <= depth+8 {
		s.paint(r, depth)
	}
	slot := k.byteAt(depth)
	switch {
	case length > depth+8:
		off, err := t.writeJump(0, length, k, target)
		if err != nil {
			return err
		}
		s.pointer[slot] = pointer(tagJump, off)
	case isPointer(target):
		s.pointer[slot] = target
	default:
		s.paint(route{k, length, payload(target)}, depth)
	}
	if slot := r.key.byteAt(depth); r.len > depth+8 {
		word, err := t.single(r, depth+8, 0)
		if err != nil {
			return err
		}
		s.pointer[slot] = word
	}
	t.setFreshDefaults(s, target)
	word, err := t.nodeUnderJump(s, def, at.depth, depth, k)
	if err != nil {
		return err
	}
	t.store(at.place, word)
	t.put(t.jumpBlock(at.off))
	t.pushDefaults(s)
	return nil
}

// setFreshDefaults sets the defaults of blocks no reader has seen yet, so
// that they are right from the first moment; live is the one that has been
// in use.
func (t *Table) setFreshDefaults(s *slots, live uint32) {
	for i, word := range s.pointer {
		if word != 0 && word != live {
			t.words[payload(word)] = s.value[i]
		}
	}
}

// nodeUnderJump writes the slots as a node that decides from bit depth on,
// and before it a jump if the descent stands at an earlier bit.
func (t *Table) nodeUnderJump(s *slots, def uint32, from, depth int, k key) (uint32, error) {
	if depth == from {
		return t.newNode(s, def, k, depth)
	}
	node, err := t.newNode(s, 0, k, depth)
	if err != nil {
		return 0, err
	}
	off, err := t.writeJump(def, depth, k, node)
	return pointer(tagJump, off), err
}

// rootIndex is the prefix's position in the binary tree over the root.
func (t *Table) rootIndex(k key, n int) uint32 {
	bits := n - t.family.rootFrom()
	return 1<<bits | t.family.rootSlot(k)>>(t.family.rootBits()-bits)
}

// addToRoot puts in a prefix that ends within the root.
func (t *Table) addToRoot(r route) (existed bool, err error) {
	at, tag := t.rootIndex(r.key, r.len), r.len-t.family.rootFrom()
	if err := t.repaintRoot(r.key, tag, valueWord(tag, r.value)); err != nil {
		return false, errors.Join(err, t.repaintRoot(r.key, tag, t.rootWord(at, tag)))
	}
	_, existed = t.inRoot[at]
	t.inRoot[at] = r.value
	return existed, nil
}

// rootWord is the value word of the longest prefix that ends in the root at
// the position at, tag bits deep, or above it.
func (t *Table) rootWord(at uint32, tag int) uint32 {
	for ; tag > 0; tag, at = tag-1, at>>1 {
		if v, ok := t.inRoot[at]; ok {
			return valueWord(tag, v)
		}
	}
	return 0
}

// repaintRoot stores word in those slots under the prefix of tag bits that
// have no longer one's value. Each slot is one store. What it has done when it
// fails it can undo without failing.
func (t *Table) repaintRoot(k key, tag int, word uint32) error {
	from := t.root + t.family.rootSlot(k)
	to := from + 1<<(t.family.rootBits()-tag)
	for at := from; at < to; at++ {
		place, old := at, t.load(at)
		if isPointer(old) {
			if t.family == ipv4 {
				if err := t.repaintPage(at, tag, word); err != nil {
					return err
				}
				t.keep()
				continue
			}
			place = payload(old)
			old = t.load(place)
		}
		if tagOf(old) <= tag && old != word {
			t.store(place, word)
		}
	}
	return nil
}

// setDefaults stores what holds where nothing else is found: everywhere, and
// under 2000::/4, where the prefixes down to that one count too.
func (t *Table) setDefaults() {
	def := uint32(0)
	if t.top != 0 {
		def = valueWord(1, t.top)
	}
	t.store(headDefault, def)
	global := key{hi: 2 << 60}
	for n := 1; n <= t.family.rootFrom(); n++ {
		if v, ok := t.get(global.first(n), n); ok {
			def = valueWord(1+n, v)
		}
	}
	t.store(headGlobal, def)
}
