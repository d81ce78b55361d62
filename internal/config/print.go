package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

func sortedKeys(m reflect.Value) []string {
	var names []string
	for _, k := range m.MapKeys() {
		names = append(names, k.String())
	}
	slices.Sort(names)
	return names
}

// Expanded returns the file with the sections that others stand for in their place, as
// text. Loaded, it means the same.
func (f *File) Expanded() string {
	var b strings.Builder
	for _, e := range f.root.keys {
		i := slices.IndexFunc(f.sections, func(s Section) bool { return s.Name == e.name })
		switch {
		case i < 0 || f.sections[i].Expand != nil:
		case !f.sections[i].Named:
			printSection(&b, f, e.name, e.value)
		default:
			for _, named := range e.value.keys {
				printSection(&b, f, join(e.name, named.name), named.value)
			}
		}
	}
	return b.String()
}

func printSection(b *strings.Builder, f *File, path string, n *node) {
	if b.Len() > 0 {
		b.WriteByte('\n')
	}
	if n.made != "" {
		fmt.Fprintf(b, "# of [%s], line %d\n", sectionOf(n.made), f.at(n.offset).Line)
	}
	fmt.Fprintf(b, "[%s]\n", path)
	for _, e := range n.keys {
		fmt.Fprintf(b, "%s = %s", shown(e.name), valueText(e.value))
		if n.made == "" && e.value.made != "" {
			fmt.Fprintf(b, " # of [%s]", sectionOf(e.value.made))
		}
		b.WriteByte('\n')
	}
}

// sectionOf returns the section of a path, which is NAME or NAME.NAME.
func sectionOf(path string) string {
	parts := strings.SplitN(path, ".", 3)
	return strings.Join(parts[:min(len(parts), 2)], ".")
}

// valueText is a value in TOML, on one line.
func valueText(n *node) string {
	switch n.kind {
	case kindString:
		return quoted(n.text)
	case kindList:
		items := make([]string, len(n.items))
		for i, item := range n.items {
			items[i] = valueText(item)
		}
		return "[" + strings.Join(items, ", ") + "]"
	case kindTable:
		pairs := make([]string, len(n.keys))
		for i, e := range n.keys {
			pairs[i] = shown(e.name) + " = " + valueText(e.value)
		}
		return "{ " + strings.Join(pairs, ", ") + " }"
	}
	return n.text
}

// quoted writes a basic string of TOML 1.0, which has other escapes than Go.
func quoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
