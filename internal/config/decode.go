package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"weft/internal/state"
)

// decoder fills the sections' structs from the tree.
type decoder struct {
	file     *File
	whole    bool            // the text has no syntax errors, so that what is missing is missing
	expanded map[string]bool // sections that were decoded and expanded
}

func (d *decoder) problem(offset int, path, what, remedy string) {
	d.file.problem(state.Error, d.file.at(offset), path, what, remedy)
}

func (d *decoder) sections() {
	f := d.file
	for _, s := range f.sections {
		f.decoded[s.Name] = map[string]any{}
		if !s.Named {
			f.decoded[s.Name][""] = s.New("")
		}
	}
	d.expand()
	for _, e := range slices.Clone(f.root.keys) {
		s, ok := d.section(e)
		switch {
		case !ok, d.expanded[s.Name]:
		case e.value.kind != kindTable:
			d.problem(e.offset, s.Name, fmt.Sprintf("is a section, not %s", e.value.kind), "write "+s.heading())
		case s.Named:
			d.named(s, e.value)
		default:
			d.table(s.Name, e.value, reflect.ValueOf(f.decoded[s.Name][""]).Elem())
		}
	}
}

// section finds the section of a top-level key. For a typing error it reports
// it and goes on with the section that was meant.
func (d *decoder) section(e entry) (Section, bool) {
	var names []string
	for _, s := range d.file.sections {
		if s.Name == e.name {
			return s, true
		}
		names = append(names, s.Name)
	}
	if e.value.kind != kindTable {
		d.problem(e.offset, shown(e.name), "stands outside of every section", d.home(e.name))
		return Section{}, false
	}
	if remedy, known := otherSection(e.name); known {
		d.problem(e.offset, shown(e.name), "is not a section of weft.toml", remedy)
		return Section{}, false
	}
	if s, ok := d.renamed(e); ok {
		if d.file.root.get(s.Name) != nil {
			return Section{}, false
		}
		d.file.root.add(key{s.Name, e.offset}, e.value)
		return s, true
	}
	d.problem(e.offset, shown(e.name), "is not a section of weft.toml", didYouMean(e.name, names))
	meant, ok := closest(e.name, names)
	if !ok || d.file.root.get(meant) != nil {
		return Section{}, false
	}
	d.file.root.add(key{meant, e.offset}, e.value)
	return d.file.sections[slices.Index(names, meant)], true
}

// renamed finds the section that had the name of a top-level key in earlier
// versions. Each of its headings is one error.
func (d *decoder) renamed(e entry) (Section, bool) {
	i := slices.IndexFunc(d.file.sections, func(s Section) bool { return s.Was != "" && s.Was == e.name })
	if i < 0 {
		return Section{}, false
	}
	s := d.file.sections[i]
	if !s.Named {
		d.problem(e.offset, e.name, fmt.Sprintf("[%s] is now [%s]", s.Was, s.Name), importRemedy)
		return s, true
	}
	for _, named := range e.value.keys {
		name := shown(named.name)
		d.problem(named.offset, join(e.name, name), fmt.Sprintf("[%s.%s] is now [%s.%s]", s.Was, name, s.Name, name), importRemedy)
	}
	return s, true
}

// importRemedy is the remedy for names of earlier versions.
const importRemedy = "weft import weft FILE prints the file with today's names"

// home returns which sections have the key, as a remedy; empty if none has.
func (d *decoder) home(name string) string {
	var homes []string
	for _, s := range d.file.sections {
		if _, ok := fieldsOf(reflect.TypeOf(s.New("")).Elem())[name]; ok {
			homes = append(homes, s.heading())
		}
	}
	if len(homes) == 0 {
		return "put it under the [section] it belongs to"
	}
	return "it belongs under " + strings.Join(homes, " or ")
}

func (s Section) heading() string {
	if s.Named {
		return "[" + s.Name + ".NAME]"
	}
	return "[" + s.Name + "]"
}

const nameMax = 32

func (d *decoder) named(s Section, table *node) {
	for _, e := range table.keys {
		if e.value.kind != kindTable && !e.value.tables {
			d.problem(table.offset, s.Name, "the section needs a name of its own", fmt.Sprintf("write [%s.NAME], for instance [%s.main]", s.Name, s.Name))
			return
		}
	}
	if len(table.keys) == 0 {
		d.problem(table.offset, s.Name, "the section needs a name of its own", fmt.Sprintf("write [%s.NAME], for instance [%s.main]", s.Name, s.Name))
	}
	for _, e := range table.keys {
		path := join(s.Name, shown(e.name))
		switch {
		case e.value.kind != kindTable:
			d.problem(e.value.offset, path, "is a section, not a list", fmt.Sprintf("write [%s], in single brackets", path))
		case !plainName(e.name):
			d.problem(e.offset, path, fmt.Sprintf("%q cannot be the name of a section", e.name), fmt.Sprintf("use letters, digits, - and _ only, at most %d, as in [%s.main]", nameMax, s.Name))
		default:
			section := s.New(e.name)
			d.file.decoded[s.Name][e.name] = section
			d.file.names[s.Name] = append(d.file.names[s.Name], e.name)
			d.table(path, e.value, reflect.ValueOf(section).Elem())
		}
	}
}

func plainName(name string) bool {
	other := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
	}
	return name != "" && len(name) <= nameMax && !strings.ContainsFunc(name, other)
}

// table decodes the keys of n, called path, into the struct v.
func (d *decoder) table(path string, n *node, v reflect.Value) {
	fields := fieldsOf(v.Type())
	for _, e := range slices.Clone(n.keys) {
		at := join(path, shown(e.name))
		field, ok := fields[e.name]
		if !ok {
			field, ok = d.unknown(path, n, e, fields)
		}
		if ok {
			d.value(at, e.value, v.FieldByIndex(field.Index), field.Tag)
		}
	}
	if !d.whole {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		field := fields[name]
		if field.Tag.Get("required") != "" && n.get(name) == nil {
			d.problem(n.offset, join(path, name), "is missing", addIt(name, field))
		}
	}
}

// unknown reports a key that the table does not have. For a typing error it
// gives the field that was meant, so that the value is looked at too.
func (d *decoder) unknown(path string, n *node, e entry, fields map[string]reflect.StructField) (reflect.StructField, bool) {
	at, names := join(path, shown(e.name)), slices.Sorted(maps.Keys(fields))
	if e.value.kind == kindTable && e.value.origin <= header {
		what, remedy := "is one part too many", fmt.Sprintf("write [%s]", path)
		if section, name, ok := strings.Cut(path, "."); ok && plainName(e.name) {
			remedy = fmt.Sprintf("a name has no dots: write [%s.%s-%s]", section, name, e.name)
		}
		d.problem(e.offset, at, what, remedy)
		return reflect.StructField{}, false
	}
	section, _, _ := strings.Cut(path, ".")
	if remedy, known := otherKeys[section][e.name]; known {
		d.problem(e.offset, at, "is not a key that weft knows", remedy)
		return reflect.StructField{}, false
	}
	what := "is not a key that weft knows"
	meant, remedy, ok := elsewhere(e.name, fields)
	if was, renamed := earlier(e.name, fields); renamed {
		meant, what, remedy, ok = was, "is now "+was, importRemedy, true
	}
	if !ok {
		meant, ok = closest(e.name, names)
		remedy = didYouMean(e.name, names)
	}
	if ok {
		d.problem(e.offset, at, what, remedy)
		if n.get(meant) != nil {
			return reflect.StructField{}, false
		}
		n.add(key{meant, e.offset}, e.value)
		return fields[meant], true
	}
	remedy = d.home(e.name)
	if !strings.HasPrefix(remedy, "it belongs") {
		remedy = didYouMean(e.name, names)
	}
	d.problem(e.offset, at, what, remedy)
	return reflect.StructField{}, false
}

// earlier returns the field that had this name in earlier versions, by its tag
// "was".
func earlier(name string, fields map[string]reflect.StructField) (meant string, ok bool) {
	for field, f := range fields {
		if f.Tag.Get("was") == name && name != "" {
			return field, true
		}
	}
	return "", false
}

// elsewhere returns the field that others' programs call so, by its tag "also".
func elsewhere(name string, fields map[string]reflect.StructField) (meant, remedy string, ok bool) {
	for field, f := range fields {
		if slices.Contains(strings.Split(f.Tag.Get("also"), ","), name) {
			return field, fmt.Sprintf("it is called %s here", field), true
		}
	}
	return "", "", false
}

// value decodes n, called path, into v.
func (d *decoder) value(path string, n *node, v reflect.Value, tag reflect.StructTag) {
	switch shape := shapeOf(v.Type()); {
	case shape == shapeList && n.kind == kindList:
		list := reflect.MakeSlice(v.Type(), len(n.items), len(n.items))
		for i, item := range n.items {
			d.value(index(path, i), item, list.Index(i), tag)
		}
		v.Set(list)
	case shape == shapeTable && n.kind == kindTable:
		d.table(path, n, v)
	case n.kind == shape.kind():
		if p := setScalar(v, n.text, tag); p != nil {
			d.problem(n.offset, path, p.what, p.remedy)
		}
	default:
		what, remedy := mismatch(path, n, v.Type(), tag)
		d.problem(n.offset, path, what, remedy)
	}
}

// fieldsOf returns the fields of a struct by their key in the file.
func fieldsOf(t reflect.Type) map[string]reflect.StructField {
	fields := map[string]reflect.StructField{}
	for _, f := range reflect.VisibleFields(t) {
		if name := f.Tag.Get("toml"); name != "" {
			fields[name] = f
		}
	}
	return fields
}
