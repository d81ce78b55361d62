package config

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"

	"weft/internal/state"
)

// maxSyntaxErrors is where reading stops: a text with so many is not TOML.
const maxSyntaxErrors = 20

// parse builds f.root and tells whether the whole text could be read.
func (f *File) parse() (whole bool) {
	f.root = newTable(header, 0)
	b := &builder{
		root:    f.root,
		current: f.root,
		line:    func(offset int) int { return f.at(offset).Line },
		refuse: func(offset int, path, what, remedy string) {
			f.problem(state.Error, f.at(offset), path, what, remedy)
		},
	}
	// Windows editors begin a file with a byte order mark. A copy without spare
	// capacity, because the parser finds offsets by capacity.
	text := slices.Clip(slices.Clone(f.text))
	start := 0
	if bytes.HasPrefix(text, []byte("\xef\xbb\xbf")) {
		start = 3
	}
	whole = true
	for failures := 0; failures < maxSyntaxErrors && start < len(text); failures++ {
		r := reader{base: start, good: start}
		r.Reset(slices.Clip(text[start:]))
		for r.NextExpression() {
			r.expression(b)
		}
		var syntax *unstable.ParserError
		if !errors.As(r.Error(), &syntax) {
			break
		}
		whole = false
		e := r.explain(text, syntax)
		f.problem(state.Error, f.at(e.offset), "", e.what, e.remedy)
		start = e.resume
		// Keys behind a heading that could not be read belong nowhere.
		if e.heading {
			b.current, b.path = newTable(header, 0), ""
		}
	}
	return whole
}

// reader is the TOML parser set on the text from byte base on.
type reader struct {
	unstable.Parser
	base int
	good int // end of the last expression that could be read, in the whole text
}

func (r *reader) expression(b *builder) {
	n := r.Expression()
	keys, end := r.keys(n)
	if n.Kind == unstable.KeyValue {
		b.value(b.current, b.path, keys, r.keyValue(b, n, join(b.path, dots(keys))))
		end = r.base + int(n.Raw.Offset+n.Raw.Length)
	} else {
		b.table(keys, n.Kind == unstable.ArrayTable)
	}
	r.good = end
}

// keys returns the parts of n's key and where the last one ends.
func (r *reader) keys(n *unstable.Node) (keys []key, end int) {
	for it := n.Key(); it.Next(); {
		k := it.Node()
		begin := r.base + int(k.Raw.Offset)
		keys = append(keys, key{name: string(k.Data), offset: begin})
		end = begin + int(k.Raw.Length)
	}
	return keys, end
}

// keyValue returns the value of key = value.
func (r *reader) keyValue(b *builder, n *unstable.Node, path string) *node {
	// The parser gives no place for lists: they stand behind the key and "=".
	_, end := r.keys(n)
	text := r.Data()
	for end-r.base < len(text) && strings.IndexByte(" \t=", text[end-r.base]) >= 0 {
		end++
	}
	return r.value(b, n.Value(), end, path)
}

func (r *reader) value(b *builder, n *unstable.Node, place int, path string) *node {
	v := &node{offset: place, origin: inline}
	switch n.Kind {
	case unstable.Array:
		v.kind = kindList
		for it := n.Children(); it.Next(); {
			at := r.place(it.Node(), place)
			v.items = append(v.items, r.value(b, it.Node(), at, index(path, len(v.items))))
		}
		return v
	case unstable.InlineTable:
		v.kind = kindTable
		for it := n.Children(); it.Next(); {
			keys, _ := r.keys(it.Node())
			b.value(v, path, keys, r.keyValue(b, it.Node(), join(path, dots(keys))))
		}
		return v
	case unstable.String:
		v.kind = kindString
	case unstable.Integer:
		v.kind = kindInteger
	case unstable.Float:
		v.kind = kindFloat
	case unstable.Bool:
		v.kind = kindBool
	default:
		v.kind = kindTime
	}
	v.text = string(n.Data)
	return v
}

// place returns where an element of a list stands; a list inside a list has no
// place of its own and takes that of its first element, or of the outer list.
func (r *reader) place(n *unstable.Node, outer int) int {
	if n.Kind != unstable.Array {
		return r.base + int(n.Raw.Offset)
	}
	if first := n.Child(); first.Valid() {
		return r.place(first, outer)
	}
	return outer
}
