package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// kind is the type of a TOML value, in the words of the messages.
type kind string

const (
	kindString  kind = "a string"
	kindInteger kind = "a whole number"
	kindFloat   kind = "a number with a fraction"
	kindBool    kind = "true or false"
	kindTime    kind = "a date or time"
	kindList    kind = "a list"
	kindTable   kind = "a table"
)

// origin says how a table came to be, which decides who may add to it
// (TOML 1.0, "Table").
type origin uint8

const (
	implied origin = iota // named only as the parent in a [parent.child] header
	header                // [table], or one element of [[table]]
	dotted                // by a key with dots
	inline                // { } or [ ]: complete where it stands
)

// node is a value with its place in the text.
type node struct {
	kind   kind
	offset int    // of the value; for a table with a header, of its name there
	text   string // scalars: a string's value, else the characters of the file
	items  []*node
	keys   []entry          // in the order of the file
	named  map[string]*node // the same, once they are many
	origin origin
	tables bool   // a list made by [[ ]] headers
	made   string // the path of the key that an expansion made it of; empty: the text has it
}

type entry struct {
	name   string
	offset int // of the key
	value  *node
}

func newTable(o origin, offset int) *node {
	return &node{kind: kindTable, origin: o, offset: offset}
}

func (n *node) get(name string) *node {
	if n.named != nil {
		return n.named[name]
	}
	for _, e := range n.keys {
		if e.name == name {
			return e.value
		}
	}
	return nil
}

// manyKeys is from where on a table finds its keys by a map: a file may have
// thousands of sections.
const manyKeys = 32

func (n *node) add(k key, value *node) {
	n.keys = append(n.keys, entry{name: k.name, offset: k.offset, value: value})
	switch {
	case n.named != nil:
		if n.named[k.name] == nil {
			n.named[k.name] = value
		}
	case len(n.keys) >= manyKeys:
		n.named = make(map[string]*node, 2*manyKeys)
		for _, e := range slices.Backward(n.keys) { // the first of one name counts
			n.named[e.name] = e.value
		}
	}
}

// child follows one step of a path, a key or [index].
func (n *node) child(step string) *node {
	number, ok := strings.CutPrefix(step, "[")
	if !ok {
		return n.get(step)
	}
	i, err := strconv.Atoi(strings.TrimSuffix(number, "]"))
	if err != nil || i < 0 || i >= len(n.items) {
		return nil
	}
	return n.items[i]
}

// key is one part of a dotted key.
type key struct {
	name   string
	offset int
}

func dots(keys []key) string {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = shown(k.name)
	}
	return strings.Join(names, ".")
}

// builder grows the tree, refusing what TOML calls a redefinition.
type builder struct {
	root    *node
	current *node
	path    string // of current
	line    func(offset int) int
	refuse  func(offset int, path, what, remedy string)
}

// table handles a [a.b] or, with list, a [[a.b]] header. After a refused header
// the keys that follow go to a table of their own, which is not looked at.
func (b *builder) table(keys []key, list bool) {
	b.current = newTable(header, keys[0].offset)
	b.path = dots(keys)
	at := b.root
	for i, k := range keys[:len(keys)-1] {
		next := at.get(k.name)
		if next == nil {
			next = newTable(implied, k.offset)
			at.add(k, next)
		}
		if next.kind == kindList && next.tables {
			next = next.items[len(next.items)-1]
		}
		if next.kind != kindTable || next.origin == inline {
			b.refuse(k.offset, dots(keys[:i+1]), fmt.Sprintf("was given a value on line %d and cannot have tables of its own", b.line(next.offset)), "keep one of the two")
			return
		}
		at = next
	}
	last := keys[len(keys)-1]
	old := at.get(last.name)
	b.current.offset = last.offset
	switch {
	case list && old == nil:
		at.add(last, &node{kind: kindList, tables: true, offset: last.offset, items: []*node{b.current}})
	case list && old.kind == kindList && old.tables:
		old.items = append(old.items, b.current)
		b.path = index(b.path, len(old.items)-1)
	case !list && old == nil:
		at.add(last, b.current)
	case !list && old.kind == kindTable && old.origin == implied:
		old.origin, old.offset = header, last.offset
		b.current = old
	default:
		b.refuse(last.offset, dots(keys), fmt.Sprintf("was already given on line %d", b.line(old.offset)), "put both parts under one heading, or give one another name")
	}
}

// value handles a.b = value inside the table at, whose path is path.
func (b *builder) value(at *node, path string, keys []key, v *node) {
	for i, k := range keys[:len(keys)-1] {
		next := at.get(k.name)
		if next == nil {
			next = newTable(dotted, k.offset)
			at.add(k, next)
		}
		if next.kind != kindTable || next.origin != dotted {
			b.refuse(k.offset, join(path, dots(keys[:i+1])), fmt.Sprintf("was already given on line %d and cannot be added to here", b.line(next.offset)), "write all of it in one place")
			return
		}
		at = next
	}
	last := keys[len(keys)-1]
	if old := at.get(last.name); old != nil {
		b.refuse(last.offset, join(path, dots(keys)), fmt.Sprintf("was already given on line %d", b.line(old.offset)), "keep one of the two")
		return
	}
	at.add(last, v)
}
