package fib

import (
	"net/netip"
	"strings"
	"testing"
)

func TestAViewSaysWhatTheTableSays(t *testing.T) {
	for _, c := range []struct {
		words    int
		make     func([]uint32) (*Table, error)
		view     func([]uint32) (*Table, error)
		prefixes []string
		asked    string
	}{
		{MinWords4 + 4096, New4, View4, []string{"0.0.0.0/0", "192.0.2.0/24", "192.0.2.128/25"}, "192.0.2.200"},
		{MinWords6 + 4096, New6, View6, []string{"::/0", "2001:db8::/32", "2001:db8:1:2::/64"}, "2001:db8:1:2::3"},
	} {
		words := make([]uint32, c.words)
		table, err := c.make(words)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range c.prefixes {
			if err := table.Insert(netip.MustParsePrefix(p), uint32(i+1)); err != nil {
				t.Fatal(err)
			}
		}
		v, err := c.view(words)
		if err != nil {
			t.Fatal(err)
		}
		e := v.Explain(netip.MustParseAddr(c.asked))
		if e.Value != 3 || e.Prefix.String() != c.prefixes[2] {
			t.Errorf("the view has %v for %s, want %s", e, c.asked, c.prefixes[2])
		}
		if got, want := v.Stats().Nodes, table.Stats().Nodes; got != want {
			t.Errorf("the view has %d nodes, the table %d", got, want)
		}
	}
	if _, err := View4(make([]uint32, MinWords4)); err == nil || !strings.Contains(err.Error(), "layout 0") {
		t.Errorf("words that hold no table: %v", err)
	}
}
