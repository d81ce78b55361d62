package config

import (
	"fmt"
	"net/netip"
	"reflect"
	"strconv"
	"strings"
	"time"

	"weft/internal/state"
)

// Expander writes the keys of other sections that one section stands for. What it
// writes has the place and the path of the key that it comes from.
type Expander struct {
	file *File
	path string // of the section that is expanded
}

// File returns the file, of which only the sections that expand are decoded.
func (e *Expander) File() *File { return e.file }

// Path returns the full path of a key of the section.
func (e *Expander) Path(key string) string { return join(e.path, key) }

// Given reports whether the section has the key.
func (e *Expander) Given(key string) bool { return e.file.Given(e.Path(key)) }

// Section makes the section path, like ra.home, unless the file has it. Its keys have
// their defaults.
func (e *Expander) Section(path string) { e.table(path, e.source("")) }

// Set gives the key path of another section a value: a string, number, bool,
// address, prefix, duration or a list of them. from is the key of this section that
// it comes from, empty for the section as a whole.
func (e *Expander) Set(path string, value any, from string) { e.put(path, e.node(value, from), from) }

// Copy gives the key path of another section the value that a key of this section has
// in the file, if it has any.
func (e *Expander) Copy(path, from string) {
	at := e.file.find(e.Path(from))
	if at == nil {
		return
	}
	same := *at
	same.made = e.Path(from)
	e.put(path, &same, from)
}

// Add appends a value to the list path of another section, which several sections may
// add to; a value that the list has already is not added again.
func (e *Expander) Add(path string, value any, from string) {
	at := e.file.find(path)
	item := e.node(value, from)
	switch {
	case at == nil:
		list := e.source(from)
		list.kind, list.items = kindList, []*node{item}
		e.put(path, list, from)
	case at.kind == kindList:
		for _, have := range at.items {
			if have.kind == item.kind && have.text == item.text {
				return
			}
		}
		at.items = append(at.items, item)
	}
}

// source is a node at the place of a key of the section.
func (e *Expander) source(from string) *node {
	path := e.Path(from)
	at := e.file.find(path)
	if at == nil {
		at, path = e.file.find(e.path), e.path
	}
	return &node{offset: at.offset, made: path}
}

func (e *Expander) node(value any, from string) *node {
	n := e.source(from)
	v := reflect.ValueOf(value)
	switch x := value.(type) {
	case netip.Addr, netip.Prefix, netip.AddrPort, time.Duration:
		n.kind, n.text = kindString, fmt.Sprint(x)
		return n
	}
	switch v.Kind() {
	case reflect.Bool:
		n.kind, n.text = kindBool, strconv.FormatBool(v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n.kind, n.text = kindInteger, strconv.FormatInt(v.Int(), 10)
	case reflect.String:
		n.kind, n.text = kindString, v.String()
	case reflect.Slice:
		n.kind = kindList
		for i := range v.Len() {
			n.items = append(n.items, e.node(v.Index(i).Interface(), from))
		}
	case reflect.Map: // a table; keys in the order of their names
		n.kind, n.origin = kindTable, inline
		for _, name := range sortedKeys(v) {
			n.add(key{name, n.offset}, e.node(v.MapIndex(reflect.ValueOf(name)).Interface(), from))
		}
	default:
		panic(fmt.Sprintf("config: an expansion cannot write a %s", v.Type()))
	}
	return n
}

// table finds or makes the table path.
func (e *Expander) table(path string, as *node) *node {
	at := e.file.root
	for _, step := range steps(path) {
		next := at.child(step)
		if next == nil {
			next = newTable(header, as.offset)
			next.made = as.made
			at.add(key{step, as.offset}, next)
		}
		at = next
	}
	return at
}

// put sets the key path, unless the file or another section gives it a value.
func (e *Expander) put(path string, value *node, from string) {
	i := strings.LastIndexByte(path, '.')
	in := e.table(path[:i], value)
	if in.kind != kindTable {
		return // an error of its own
	}
	old := in.get(path[i+1:])
	if old == nil {
		in.add(key{path[i+1:], value.offset}, value)
		return
	}
	at, other := e.file.at(old.offset), path
	if old.made != "" {
		if other = old.made; valueText(old) == valueText(value) {
			return // two sections that want the same
		}
	}
	e.file.problem(state.Error, at, other, fmt.Sprintf("is given by %s on line %d too", e.written(from), e.file.at(value.offset).Line), "keep one of the two")
}

// written is a key of the section as people find it in the file.
func (e *Expander) written(from string) string {
	if from == "" || !e.Given(from) {
		return "[" + e.path + "]"
	}
	return e.Path(from)
}

// expand decodes the sections that stand for others, and adds what they stand for.
func (d *decoder) expand() {
	f := d.file
	for _, s := range f.sections {
		table := f.root.get(s.Name)
		if s.Expand == nil || table == nil || table.kind != kindTable {
			continue
		}
		if !s.Named {
			d.table(s.Name, table, reflect.ValueOf(f.decoded[s.Name][""]).Elem())
		} else {
			d.named(s, table)
		}
		d.expanded[s.Name] = true
	}
	for _, s := range f.sections {
		switch {
		case s.Expand == nil || !d.expanded[s.Name]:
		case !s.Named:
			s.Expand(&Expander{f, s.Name}, "", f.Get(s.Name, ""))
		default:
			for _, name := range f.names[s.Name] {
				s.Expand(&Expander{f, join(s.Name, name)}, name, f.Get(s.Name, name))
			}
		}
	}
}

// Written returns the path by which the file gives a path: that of the key which an
// expansion made it of, or the path itself.
func (f *File) Written(path string) string {
	at, written := f.root, ""
	for _, step := range steps(path) {
		if at = at.child(step); at == nil {
			break
		}
		switch {
		case at.made != "":
			written = at.made
		case written != "" && step[0] == '[':
			written += step
		case written != "":
			written = join(written, step)
		}
	}
	if written == "" {
		return path
	}
	return written
}

// written returns the problems by the paths that the file has. What is wrong with a
// value that was copied is reported once.
func (f *File) written() (list []state.Problem) {
	type place struct {
		pos  state.Position
		path string
	}
	seen := map[place]bool{}
	for _, p := range f.problems {
		path := f.Written(p.Path)
		if path != p.Path && seen[place{p.Pos, path}] {
			continue
		}
		p.Path = path
		seen[place{p.Pos, path}] = true
		list = append(list, p)
	}
	return list
}
