package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// completed is what the shell gets for a command line whose last word has begun.
func completed(t *testing.T, words ...string) []string {
	t.Helper()
	root := rootCommand()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&bytes.Buffer{})
	root.SetArgs(append([]string{"__complete"}, words...))
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	return lines[:len(lines)-1] // the last one is the directive
}

func TestNamesAreCompleted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "weft.toml")
	if err := os.WriteFile(file, []byte("[interface.attic]\ndevice = \"eth0\"\n[interface.barn]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		words []string
		want  string
	}{
		{[]string{"lab", "run", ""}, "nat64"},
		{[]string{"lab", "up", "nat64-"}, "nat64-stateful"},
		{[]string{"sim", "run", ""}, completed(t, "sim", "compare", "")[0]},
		{[]string{"sim", "compare", "x", "--schedulers", ""}, "shortest+ecf"},
		{[]string{"sim", "compare", "x", "--schedulers", "ecf,da"}, "ecf,daps"},
		{[]string{"trace", "--config", file, "--in", ""}, "barn"},
		{[]string{"trace", "--via", ""}, "slow"},
		{[]string{"import", "jool", "--mode", "s"}, "stateful"},
		{[]string{"show", "neigh"}, "neighbours"},
	} {
		got := completed(t, c.words...)
		if !slices.ContainsFunc(got, func(s string) bool { name, _, _ := strings.Cut(s, "\t"); return name == c.want }) {
			t.Errorf("%q: %q, want %q among them", c.words, got, c.want)
		}
	}
	if got := completed(t, "trace", "--config", file+"x", "--in", ""); len(got) != 0 {
		t.Errorf("of a file that is not there: %q", got)
	}
}
