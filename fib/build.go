package fib

import (
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"slices"
)

// Build fills an empty table from all its prefixes at once, many times faster
// than Insert for each. Readers meanwhile see a part of the routes. If it
// fails the table must not be used any more.
func (t *Table) Build(prefixes iter.Seq2[netip.Prefix, uint32]) error {
	if t.count != 0 {
		return errors.New("build a table: it is not empty")
	}
	var routes []route
	for p, value := range prefixes {
		r, err := t.route(p, value)
		if err != nil {
			return fmt.Errorf("build a table: insert %s: %w", p, err)
		}
		routes = append(routes, r)
	}
	order := func(a, b route) int {
		if c := a.key.compare(b.key); c != 0 {
			return c
		}
		return a.len - b.len
	}
	if !slices.IsSortedFunc(routes, order) {
		slices.SortFunc(routes, order)
	}
	for i := 1; i < len(routes); i++ {
		if order(routes[i-1], routes[i]) == 0 {
			p := netip.PrefixFrom(routes[i].key.addr(t.family), routes[i].len)
			return fmt.Errorf("build a table: %s: %w", p, ErrDuplicate)
		}
	}
	if err := t.build(routes); err != nil {
		return fmt.Errorf("build a table of %d prefixes: %w", len(routes), err)
	}
	t.keep()
	t.count = len(routes)
	return nil
}

// build takes sorted routes: a prefix comes before those it covers, and
// those it covers follow it without a gap.
func (t *Table) build(routes []route) error {
	var rest []route
	for len(routes) > 0 {
		r := routes[0]
		n := 1
		switch {
		case r.len == 0:
			t.top = r.value
		case t.endsInRoot(r.key, r.len):
			if _, err := t.add(r); err != nil {
				return err
			}
		case !t.family.inRoot(r.key) || r.len <= t.family.rootFrom():
			rest = append(rest, r)
		default:
			n = group(routes, t.family.rootEnd(), t.family.rootEnd())
			if t.family == ipv4 {
				if err := t.buildPage(routes[:n]); err != nil {
					return err
				}
				break
			}
			place, depth := t.start(r.key, r.len)
			word, err := t.subtree(routes[:n], depth, t.load(place))
			if err != nil {
				return err
			}
			t.store(place, word)
		}
		routes = routes[n:]
	}
	if len(rest) > 0 {
		word, err := t.subtree(rest, 0, 0)
		if err != nil {
			return err
		}
		t.store(headRest, word)
	}
	t.setDefaults()
	return nil
}

// group is how many of the first routes are longer than depth bits and share
// the first bits bits.
func group(routes []route, depth, bits int) int {
	first := routes[0].key.first(bits)
	for i, r := range routes {
		if r.len <= depth || r.key.first(bits) != first {
			return i
		}
	}
	return len(routes)
}

// subtree writes all that lies under one slot. The routes agree in their
// first depth bits and are all longer.
func (t *Table) subtree(routes []route, depth int, def uint32) (uint32, error) {
	if !t.jumps {
		return t.buildNode(routes, depth, def)
	}
	if len(routes) == 1 {
		return t.single(routes[0], depth, def)
	}
	first, last := routes[0], routes[len(routes)-1]
	fork := first.key.common(last.key)
	for _, r := range routes {
		fork = min(fork, r.len-1)
	}
	if fork &^= 7; fork == depth {
		return t.buildNode(routes, depth, def)
	}
	node, err := t.buildNode(routes, fork, 0)
	if err != nil {
		return 0, err
	}
	off, err := t.writeJump(def, fork, first.key, node)
	return pointer(tagJump, off), err
}

func (t *Table) buildNode(routes []route, depth int, def uint32) (uint32, error) {
	var s slots
	for left := routes; len(left) > 0; {
		r := left[0]
		if r.len <= depth+8 {
			s.paint(r, depth)
			left = left[1:]
			continue
		}
		n := group(left, depth+8, depth+8)
		slot := r.key.byteAt(depth)
		word, err := t.subtree(left[:n], depth+8, s.value[slot])
		if err != nil {
			return 0, err
		}
		s.pointer[slot] = word
		left = left[n:]
	}
	for _, r := range routes {
		if r.len >= depth+8 {
			continue
		}
		if _, ok := s.shows(r.key, r.len, depth); !ok {
			t.hidden.set(r.key, r.len, r.value)
		}
	}
	return t.newNode(&s, def, routes[0].key, depth)
}
