package uci_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"weft/internal/importer/uci"
)

// written gives a text as uci show prints it, with the lines of each value.
func written(files []*uci.File) string {
	var b strings.Builder
	for _, f := range files {
		for i, s := range f.Sections {
			name := s.Name
			if name == "" {
				name = fmt.Sprintf("@%s[%d]", s.Type, i)
			}
			fmt.Fprintf(&b, "%s.%s=%s:%d\n", f.Name, name, s.Type, s.Line())
			for _, o := range s.Order {
				v := s.Options[o]
				last := v.Lines[len(v.Lines)-1]
				fmt.Fprintf(&b, "  %s=%q:%d-%d\n", o, v.Items, last.First, last.Last)
			}
		}
	}
	return b.String()
}

func TestTextsAreReadAsUCIReadsThem(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"# nothing\n\n  # more\n", ""},
		{"config interface 'lan'\n\toption proto 'static'\n\tlist dns '192.0.2.1'\n\tlist dns \"192.0.2.2\"\n",
			"network.lan=interface:1\n  proto=[\"static\"]:2-2\n  dns=[\"192.0.2.1\" \"192.0.2.2\"]:4-4\n"},
		{"config route\noption a b\nconfig route\n", "network.@route[0]=route:1\n  a=[\"b\"]:2-2\nnetwork.@route[1]=route:3\n"},
		{"c interface lan;o proto static; l dns 192.0.2.1 # one line", "network.lan=interface:1\n  proto=[\"static\"]:1-1\n  dns=[\"192.0.2.1\"]:1-1\n"},
		{"config x a\r\n\toption b 'c'\r\n", "network.a=x:1\n  b=[\"c\"]:2-2\n"},
		{"config x a\noption b 'one\ntwo'\noption c d\n", "network.a=x:1\n  b=[\"one\\ntwo\"]:2-3\n  c=[\"d\"]:4-4\n"},
		{"config x a\noption b one\\\ntwo\noption c \"d\\\"e\\\\\"\n", "network.a=x:1\n  b=[\"onetwo\"]:2-3\n  c=[\"d\\\"e\\\\\"]:4-4\n"},
		{"config x a\noption b 'it'\\''s'\"#\"#c\n", "network.a=x:1\n  b=[\"it's#\"]:2-2\n"},
		{"config x a\noption b c\noption b d\noption e f\noption e ''\n", "network.a=x:1\n  b=[\"d\"]:3-3\n  e=[]:5-5\n"},
		{"config x a\noption b c\nlist b d\n", "network.a=x:1\n  b=[\"c\" \"d\"]:3-3\n"},
		{"config x a\noption b c\nconfig y d\nconfig z a\noption e f\n", "network.a=z:1\n  b=[\"c\"]:2-2\n  e=[\"f\"]:5-5\nnetwork.d=y:3\n"},
		{"package dhcp\nconfig x a\npackage fire-wall\nconfig y b\n", "dhcp.a=x:2\nfire-wall.b=y:4\n"},
	} {
		files, err := uci.Parse("network", []byte(c.text))
		if got := written(files); err != nil || got != c.want {
			t.Errorf("%q: %v\n%s\nwant\n%s", c.text, err, got, c.want)
		}
	}
}

func TestADamagedTextIsOneErrorWithItsLine(t *testing.T) {
	for _, c := range []struct {
		text string
		line int
		says string
	}{
		{"option a b\n", 1, "before the first config"},
		{"config x a\n\noptoin b c\n", 3, `"optoin" begins no line`},
		{"config x a\noption b 'c\n\n\n", 2, "begins with ' and does not end"},
		{"config x a\noption b \"c", 2, "does not end"},
		{"config x a-b\n", 1, `"a-b" is not a name of a section`},
		{"config x a\noption b-c d\n", 2, `"b-c" is not a name of an option`},
		{"config x a\noption b c d\n", 2, `"d" is one word too many`},
		{"config x a b\n", 1, "too many"},
		{"config\n", 1, "no type"},
		{"config x\noption\n", 2, "no name"},
		{"config x\nlist ''\n", 2, "no name"},
		{"config \"a b\"\n", 1, "not a type"},
		{"config x\noption a \x00\n", 2, "zero byte"},
		{"\x7fELF\x00", 1, "zero byte"},
		{"{ \"a\": 1 }\n", 1, "begins no line"},
		{"package\n", 1, "needs one name"},
		{"package a\nconfig x\npackage a\n", 3, "twice"},
		{strings.Repeat(" ", uci.MaxSize+1), 1, "no UCI file has more"},
	} {
		_, err := uci.Parse("network", []byte(c.text))
		var fault *uci.Error
		if !errors.As(err, &fault) || fault.Line != c.line || !strings.Contains(fault.What, c.says) || fault.Remedy == "" {
			t.Errorf("%.40q: %v, want line %d and %q", c.text, err, c.line, c.says)
		}
	}
}

// quoted is a value as uci export writes it.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// export writes what uci export would.
func export(files []*uci.File) string {
	var b strings.Builder
	for _, f := range files {
		fmt.Fprintf(&b, "package %s\n", f.Name)
		for _, s := range f.Sections {
			fmt.Fprintf(&b, "\nconfig %s %s\n", quoted(s.Type), quoted(s.Name))
			for _, o := range s.Order {
				word := map[bool]string{false: "option", true: "list"}[s.Options[o].List]
				for _, item := range s.Options[o].Items {
					fmt.Fprintf(&b, "\t%s %s %s\n", word, o, quoted(item))
				}
			}
		}
	}
	return b.String()
}

// Whatever is read is the same when it is written and read again, and each line of a file
// is there once, in order.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"config interface 'lan'\n\toption proto 'static'\n\tlist dns '192.0.2.1'\n",
		"package a\nconfig x 'y'\noption b \"c\\\nd\" # e\npackage b\n", "c x;o a 'b''c'\\\n;l d e", "config x a\nconfig y a\noption q 'it'\\''s'",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		files, err := uci.Parse("network", text)
		if err != nil {
			var fault *uci.Error
			if !errors.As(err, &fault) || fault.Line < 1 || fault.Line > 1+strings.Count(string(text), "\n") {
				t.Errorf("the error %v", err)
			}
			return
		}
		last, lines := 0, 0
		for _, file := range files {
			for _, l := range file.Lines {
				if l.First < last || l.Last < l.First {
					t.Errorf("line %d-%d after %d", l.First, l.Last, last)
				}
				last = l.First
				if l.Kind != uci.Package {
					lines++
				}
			}
			for _, s := range file.Sections {
				lines -= len(s.Heads)
				for _, v := range s.Options {
					lines -= len(v.Lines)
				}
			}
		}
		if lines != 0 {
			t.Errorf("%d lines are in no section", lines)
		}
		again, err := uci.Parse("network", []byte(export(files)))
		if err != nil {
			t.Fatalf("%v\n%s", err, export(files))
		}
		if !slices.Equal(strings.Split(export(files), "\n"), strings.Split(export(again), "\n")) {
			t.Errorf("%q becomes %q", export(files), export(again))
		}
	})
}
