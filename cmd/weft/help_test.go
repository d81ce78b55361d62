package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"weft/internal/version"
)

func TestEveryCommandExplainsItself(t *testing.T) {
	every(rootCommand(), func(c *cobra.Command) {
		if c.Short == "" || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: short help %q", c.CommandPath(), c.Short)
		}
		if c.Long == "" {
			t.Errorf("%s has no long help", c.CommandPath())
		}
		if c.Example == "" && c.Name() != "list" {
			t.Errorf("%s shows no example", c.CommandPath())
		}
		for line := range strings.Lines(c.Long) {
			if table := strings.HasPrefix(line, "  "); !table && len(line) > 81 {
				t.Errorf("%s: help wider than a terminal: %q", c.CommandPath(), line)
			}
		}
		for line := range strings.Lines(c.Example) {
			line, _, _ = strings.Cut(strings.TrimSpace(line), "   ")
			for _, found := range weftCommand.FindAllStringSubmatch(line, -1) {
				if words := strings.Fields(found[1]); len(words) == 0 {
					continue
				} else if wrong := checkCommandLine(words, true); wrong != "" {
					t.Errorf("%s: example %q: %s", c.CommandPath(), line, wrong)
				}
			}
		}
	})
}

func TestMistakesOnTheCommandLineAreAnsweredWithHelp(t *testing.T) {
	for _, c := range []struct{ line, says string }{
		{"chekc weft.toml", "Did you mean this?\n\tcheck"},
		{"show counter", "did you mean counters?"},
		{"show counter --wide", "did you mean counters?"},
		{"show counters --wid", "unknown flag: --wid"},
		{"show nothing-like-it", "weft show --help lists them"},
		{"lab runn nat64", "did you mean run?"},
		{"lab run", "weft lab list shows the scenarios"},
		{"lab run nat64 chain", "takes one scenario"},
		{"lab run nat46", "no scenario is called \"nat46\""},
		{"lab down", "needs the name of one lab, or --all"},
		{"lab shell", "takes a node"},
		{"check a b", "takes one file"},
		{"check --bad", "weft check: unknown flag: --bad (weft check --help lists the flags)"},
		{"check no-such-file.toml", "open no-such-file.toml: no such file"},
		{"run a b", "takes one file"},
	} {
		root := rootCommand()
		root.SetArgs(strings.Fields(c.line))
		root.SetOut(&bytes.Buffer{})
		root.SetErr(&bytes.Buffer{})
		err := root.Execute()
		if err == nil {
			t.Errorf("weft %s: no error", c.line)
			continue
		}
		if !strings.Contains(err.Error(), c.says) {
			t.Errorf("weft %s: says %q, want %q", c.line, err, c.says)
		}
	}
}

func TestManualPagesAreMadeForEveryCommandAndAlwaysTheSame(t *testing.T) {
	generate := func() (dir string) {
		dir = filepath.Join(t.TempDir(), "man")
		root := rootCommand()
		root.SetArgs([]string{"man", dir})
		if err := root.Execute(); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	first, second := generate(), generate()
	every(rootCommand(), func(c *cobra.Command) {
		name := strings.ReplaceAll(c.CommandPath(), " ", "-") + ".8"
		text, err := os.ReadFile(filepath.Join(first, name))
		if err != nil {
			t.Error(err)
			return
		}
		again, err := os.ReadFile(filepath.Join(second, name))
		if err != nil || !bytes.Equal(text, again) {
			t.Errorf("%s differs from one time to the next", name)
		}
		if !bytes.Contains(text, []byte(".SH DESCRIPTION")) {
			t.Errorf("%s describes nothing", name)
		}
	})
	err := filepath.WalkDir(first, func(path string, d fs.DirEntry, err error) error {
		if strings.Contains(path, "probe") {
			t.Errorf("%s is about a hidden command", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestTheVersionIsAFlagToo(t *testing.T) {
	for _, flag := range []string{"--version", "-v"} {
		root, out := rootCommand(), &bytes.Buffer{}
		root.SetArgs([]string{flag})
		root.SetOut(out)
		if err := root.Execute(); err != nil || out.String() != "weft "+version.String()+"\n" {
			t.Errorf("weft %s: %v, %q", flag, err, out)
		}
	}
}
