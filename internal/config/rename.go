package config

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"

	"github.com/pelletier/go-toml/v2/unstable"

	"weft/internal/state"
)

// edit replaces text[begin:end].
type edit struct {
	begin, end int
	with       string
}

// renamer finds the names of earlier versions in a text.
type renamer struct {
	file     *File
	edits    []edit
	remarks  []state.Problem
	sections map[string]bool // headings that a remark was made about
	devices  map[string]string
	strings  []stringAt // scalars that may name a device
}

type stringAt struct {
	offset, length int
	path, value    string
}

// Modernise returns text, a weft.toml of an earlier version, with the present
// names of sections and keys, and a remark (a warning) for each that it
// changed. Comments and layout stay as they are. ok is false if the text is no
// TOML: Load says why.
func Modernise(file string, text []byte, sections []Section) (result []byte, remarks []state.Problem, ok bool) {
	mark := []byte("\xef\xbb\xbf") // with which Windows editors begin a file
	if bytes.HasPrefix(text, mark) {
		text, result = text[len(mark):], mark
	}
	r := &renamer{file: &File{file: file, text: text, sections: sections}, sections: map[string]bool{}, devices: map[string]string{}}
	var p unstable.Parser
	p.Reset(slices.Clip(slices.Clone(text)))
	table, path := reflect.Type(nil), ""
	for p.NextExpression() {
		n := p.Expression()
		if n.Kind == unstable.KeyValue {
			r.keyValue(n, table, path)
			continue
		}
		table, path = r.heading(n)
	}
	if p.Error() != nil {
		return nil, nil, false
	}
	r.devicesNamed()
	slices.SortFunc(r.edits, func(a, b edit) int { return a.begin - b.begin })
	end := 0
	for _, e := range r.edits {
		result = append(append(result, text[end:e.begin]...), e.with...)
		end = e.end
	}
	state.SortProblems(r.remarks)
	return append(result, text[end:]...), r.remarks, true
}

// keysOf returns the parts of n's key with their places.
func keysOf(n *unstable.Node) (keys []*unstable.Node) {
	for it := n.Key(); it.Next(); {
		keys = append(keys, it.Node())
	}
	return keys
}

func (r *renamer) replace(n *unstable.Node, with string) {
	begin := int(n.Raw.Offset)
	r.edits = append(r.edits, edit{begin, begin + int(n.Raw.Length), with})
}

func (r *renamer) remark(offset int, path, what, remedy string) {
	r.remarks = append(r.remarks, state.Problem{Severity: state.Warning, Pos: r.file.at(offset), Path: path, What: what, Remedy: remedy})
}

// heading handles [section.name] and [[section.name.list]], and gives the type
// and path of the table that it opens.
func (r *renamer) heading(n *unstable.Node) (reflect.Type, string) {
	return r.descend(nil, "", keysOf(n))
}

// descend follows keys from the table t, renames them, and gives the type that
// they lead to: nil if it is none that weft knows.
func (r *renamer) descend(t reflect.Type, path string, keys []*unstable.Node) (reflect.Type, string) {
	if t == nil && path == "" && len(keys) > 0 {
		t, path, keys = r.section(keys)
	}
	for _, k := range keys {
		name := string(k.Data)
		if t == nil {
			return nil, join(path, shown(name))
		}
		fields := fieldsOf(t)
		field, ok := fields[name]
		if !ok {
			var meant string
			if meant, ok = earlier(name, fields); ok {
				r.replace(k, meant)
				r.remark(int(k.Raw.Offset), join(path, name), "is now "+meant, "")
				field, name = fields[meant], meant
			}
		}
		path = join(path, shown(name))
		if !ok {
			return nil, path
		}
		t = elem(field.Type)
	}
	return t, path
}

// section takes the keys of a section's name.
func (r *renamer) section(keys []*unstable.Node) (reflect.Type, string, []*unstable.Node) {
	first, rest := keys[0], keys[1:]
	name := string(first.Data)
	i := slices.IndexFunc(r.file.sections, func(s Section) bool { return s.Name == name || s.Was != "" && s.Was == name })
	if i < 0 {
		return nil, shown(name), rest
	}
	s := r.file.sections[i]
	was, is := name, s.Name
	instance := ""
	if s.Named && len(rest) > 0 {
		instance = string(rest[0].Data)
		was, is = join(was, shown(instance)), join(is, shown(instance))
		rest = rest[1:]
	}
	if name != s.Name {
		r.replace(first, s.Name)
		if !r.sections[was] {
			r.sections[was] = true
			r.remark(int(first.Raw.Offset), was, fmt.Sprintf("[%s] is now [%s]", was, is), "")
		}
		if instance != "" {
			r.devices[name+"-"+instance] = s.Name + "-" + instance
		}
	}
	if s.Named && instance == "" {
		return nil, is, rest
	}
	return elem(reflect.TypeOf(s.New(instance))), is, rest
}

// elem returns the struct behind pointers and lists; nil if there is none.
func elem(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || len(fieldsOf(t)) == 0 {
		return nil
	}
	return t
}

func (r *renamer) keyValue(n *unstable.Node, table reflect.Type, path string) {
	t, path := r.descend(table, path, keysOf(n))
	r.value(n.Value(), t, path)
}

func (r *renamer) value(n *unstable.Node, t reflect.Type, path string) {
	switch n.Kind {
	case unstable.Array:
		i := 0
		for it := n.Children(); it.Next(); i++ {
			r.value(it.Node(), t, index(path, i))
		}
	case unstable.InlineTable:
		for it := n.Children(); it.Next(); {
			if t != nil {
				r.keyValue(it.Node(), t, path)
			}
		}
	case unstable.String:
		r.strings = append(r.strings, stringAt{int(n.Raw.Offset), int(n.Raw.Length), path, string(n.Data)})
	}
}

// devicesNamed renames the default devices of renamed sections where other
// sections name them: the default device of [lns.isp] is lns-isp.
func (r *renamer) devicesNamed() {
	for _, s := range r.strings {
		if now, ok := r.devices[s.value]; ok {
			r.edits = append(r.edits, edit{s.offset, s.offset + s.length, fmt.Sprintf("%q", now)})
			r.remark(s.offset, s.path, fmt.Sprintf("the device %s is now %s", s.value, now), "rename it in firewall rules and scripts too")
		}
	}
}
