package lab

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"weft/internal/lab/probe"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, file, got string) {
	t.Helper()
	path := "testdata/" + file
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; got\n%s\nwant\n%s", path, got, want)
	}
}

func TestPlanIsWhatTheScenarioAsksFor(t *testing.T) {
	for _, name := range []string{"chain", "nat64", "everything"} {
		src := Source{Name: name, File: name + ".toml"}
		var err error
		if name == "everything" {
			src.Text, err = os.ReadFile("testdata/everything.toml")
		} else {
			src, err = Find(name)
		}
		if err != nil {
			t.Fatal(err)
		}
		s, err := Parse(src)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for _, step := range Plan(s, "demo") {
			fmt.Fprintln(&b, step)
		}
		golden(t, name+".plan", b.String())
		golden(t, name+".picture", strings.Join(Draw(s), "\n")+"\n")
	}
}

func TestSpaceNamesSplitBackIntoLabAndNode(t *testing.T) {
	for _, c := range []struct{ lab, node string }{{"nat64", "router"}, {"a-b", "c"}, {"weft", "x_1"}} {
		lab, node, ok := SplitSpaceName(SpaceName(c.lab, c.node))
		if !ok || lab != c.lab || node != c.node {
			t.Errorf("%v splits into %q, %q, %v", c, lab, node, ok)
		}
	}
	for _, name := range []string{"", "weft", "weft-", "weft-a", "weft-a-", "weft--a", "other-a-b"} {
		if lab, node, ok := SplitSpaceName(name); ok {
			t.Errorf("%q is taken for lab %q, node %q", name, lab, node)
		}
	}
}

func TestCountersAreReadFromAnyOfTheirForms(t *testing.T) {
	for _, c := range []struct {
		text string
		want uint64
	}{
		{`[{"name":"forward-6to4","packets":3},{"name":"drop-kernel","packets":0}]`, 3},
		{"{\"outcome\":\"forward-6to4\",\"count\":1}\n{\"outcome\":\"forward-6to4\",\"count\":4}\n", 5},
		{`[]`, 0},
	} {
		got, err := readCounters([]byte(c.text))
		if err != nil || got["forward-6to4"] != c.want {
			t.Errorf("%s reads as %v, %v; want forward-6to4 %d", c.text, got, err, c.want)
		}
	}
	for _, text := range []string{`{"packets":3}`, `{"name":"x"}`, `[3]`, `{"name":"x","packets":-1}`, `{"name":`, `{"name":"x","packets":1.5}`} {
		if got, err := readCounters([]byte(text)); err == nil {
			t.Errorf("%s reads as %v, want an error", text, got)
		}
	}
}

func TestARoutedPacketIsRecognised(t *testing.T) {
	at := func(mac string, hops int, to string) []probe.Frame {
		f := probe.Describe(nil)
		f.Words, f.Source, f.Destination, f.HopLimit = "echo request", mac+"a", mac+"b", hops
		if err := f.To.UnmarshalText([]byte(to)); err != nil {
			t.Fatal(err)
		}
		return []probe.Frame{f}
	}
	c := Check{Routed: true, Places: []Place{{"a", "x"}, {"b", "x"}}}
	first := at("1", 64, "192.0.2.1")
	for _, k := range []struct {
		name   string
		second []probe.Frame
		want   string
	}{
		{"a router between", at("2", 63, "192.0.2.1"), ""},
		{"a bridge between", at("1", 64, "192.0.2.1"), "MAC address"},
		{"a translator between", at("2", 63, "192.0.2.9"), "IP addresses"},
		{"a hop limit that stays", at("2", 64, "192.0.2.1"), "hop limit"},
		{"nothing seen", nil, "no echo request"},
	} {
		err := requestsSeen(c, [][]probe.Frame{first, k.second})
		if (err == nil) != (k.want == "") || err != nil && !strings.Contains(err.Error(), k.want) {
			t.Errorf("%s: %v, want %q", k.name, err, k.want)
		}
	}
}
