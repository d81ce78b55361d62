package config

import (
	"fmt"
	"reflect"
	"strings"
)

// Reference returns the page that lists every section and key, in Markdown.
func Reference(sections []Section) string {
	var b strings.Builder
	b.WriteString(`# weft.toml

<!-- Made by tools/configdoc from the structs that weft reads; do not edit. -->

One [TOML](https://toml.io) file describes the router. weft is strict with it:
a key it does not know is an error, and so is a value that cannot work.
` + "`weft check FILE`" + ` lists all problems at once, each with its line. Editors
that know JSON Schema complete and check the file with
[weft.schema.json](weft.schema.json).

Addresses, prefixes and durations are strings in quotes. A NAME is letters,
digits, ` + "`-` and `_`" + `.
`)
	for _, s := range sections {
		v := reflect.ValueOf(s.New("NAME")).Elem()
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", s.heading(), s.Doc)
		writeTable(&b, v)
		fmt.Fprintf(&b, "\n```toml\n%s\n%s```\n", strings.Replace(s.heading(), "NAME", "main", 1), examples(v.Type()))
		for _, f := range reflect.VisibleFields(v.Type()) {
			if f.Tag.Get("toml") != "" && shapeOf(f.Type) == shapeList && shapeOf(f.Type.Elem()) == shapeTable {
				fmt.Fprintf(&b, "\nEach of `%s` has\n\n", f.Tag.Get("toml"))
				writeTable(&b, reflect.New(f.Type.Elem()).Elem())
			}
		}
	}
	return b.String()
}

func writeTable(b *strings.Builder, v reflect.Value) {
	b.WriteString("| key | value | default | meaning |\n|---|---|---|---|\n")
	for _, f := range reflect.VisibleFields(v.Type()) {
		name := f.Tag.Get("toml")
		if name == "" {
			continue
		}
		value := defaultOf(v.FieldByIndex(f.Index))
		switch {
		case f.Tag.Get("required") != "":
			value = "must be given"
		case value != "":
			value = "`" + value + "`"
		default:
			value = "none"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", name, valueWords(f.Type, f.Tag), value, f.Tag.Get("doc"))
	}
}

// valueWords says in a table cell what a value looks like.
func valueWords(t reflect.Type, tag reflect.StructTag) string {
	if shapeOf(t) == shapeList {
		one := valueWords(t.Elem(), tag)
		if shapeOf(t.Elem()) == shapeTable {
			one = "a table"
		}
		return "list, each " + one
	}
	if enum := tag.Get("enum"); enum != "" {
		return "`\"" + strings.ReplaceAll(enum, ",", "\"`, `\"") + "\"`"
	}
	text := strings.TrimSuffix(strings.TrimSuffix(words(t, tag), " in quotes"), ",")
	if shapeOf(t) == shapeInteger {
		low, high := integerBounds(t, tag)
		text = fmt.Sprintf("%s, %d to %d", text, low, high)
	}
	if ipOption(tag, "bare") {
		text += " or address"
	}
	return text
}

func examples(t reflect.Type) string {
	var b strings.Builder
	for _, f := range reflect.VisibleFields(t) {
		if example := f.Tag.Get("example"); example != "" {
			fmt.Fprintf(&b, "%s = %s\n", f.Tag.Get("toml"), example)
		}
	}
	return b.String()
}
