package config

import (
	"fmt"
	"reflect"
	"strings"
)

// ManualPage returns weft.toml(5) without its head, in the Markdown of go-md2man. Its text
// is that of Reference.
func ManualPage(sections []Section) string {
	var b strings.Builder
	b.WriteString(`# NAME
weft.toml \- the description of a router for weft(8)

# SYNOPSIS
**/etc/weft/weft.toml**

# DESCRIPTION
One TOML file describes the router. weft is strict with it: a key that it does not
know is an error, and so is a value that cannot work. **weft check** lists all problems
at once, each with its line; **weft plan** shows what would change; **systemctl reload weft**
applies the file. Everything in this file that weft adds to the system is removed by
**weft unload**.

Addresses, prefixes and durations are strings in quotes. A NAME is letters, digits, **-**
and **_**; it is your choice, and other sections refer to it.

# SECTIONS
`)
	for _, s := range sections {
		t := reflect.ValueOf(s.New("NAME")).Elem()
		fmt.Fprintf(&b, "## %s\n%s\n\n", s.heading(), plainMarkdown(s.Doc))
		manualKeys(&b, t)
		for _, f := range reflect.VisibleFields(t.Type()) {
			if f.Tag.Get("toml") != "" && shapeOf(f.Type) == shapeList && shapeOf(f.Type.Elem()) == shapeTable {
				fmt.Fprintf(&b, "Each of **%s** has\n\n", f.Tag.Get("toml"))
				manualKeys(&b, reflect.New(f.Type.Elem()).Elem())
			}
		}
	}
	b.WriteString(`# EXAMPLE
A router between a LAN and an uplink; the sections above are added below it:

    [router]
    name = "attic"

    [interface.lan]
    device = "eth1"
    addresses = ["192.0.2.1/24", "2001:db8:1::1/64"]

    [interface.wan]
    device = "eth0"
    addresses = ["198.51.100.2/24", "2001:db8:2::2/64"]

# SEE ALSO
**weft(8)**, **weft-check(8)**, **weft-plan(8)**, **weft-run(8)**
`)
	return b.String()
}

func manualKeys(b *strings.Builder, v reflect.Value) {
	for _, f := range reflect.VisibleFields(v.Type()) {
		name := f.Tag.Get("toml")
		if name == "" {
			continue
		}
		say := valueWords(f.Type, f.Tag)
		switch value := defaultOf(v.FieldByIndex(f.Index)); {
		case f.Tag.Get("required") != "":
			say += "; must be given"
		case value != "":
			say += "; default " + value
		}
		fmt.Fprintf(b, "**%s** (%s)\n: %s\n\n", name, plainMarkdown(say), plainMarkdown(f.Tag.Get("doc")))
	}
}

// plainMarkdown takes marks out of text and keeps what would be one as it is.
func plainMarkdown(text string) string {
	return strings.NewReplacer("`", "", "*", `\*`, "_", `\_`, "<", `\<`, "[", `\[`, "]", `\]`).Replace(text)
}
