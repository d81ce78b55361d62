package lab

import (
	"os"
	"path/filepath"
	"testing"
)

func TestShellFindsWeftAlthoughItIsNotOnTheCallersPath(t *testing.T) {
	dir := t.TempDir()
	weft := filepath.Join(dir, "weft")
	if err := os.WriteFile(weft, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", "/usr/bin:/bin")
	p, err := Shell(RunningNode{Lab: "l", Node: "n"}, []string{"weft", "show"}, weft, os.Environ())
	if err != nil || p.Path != weft {
		t.Errorf("runs %q, %v", p.Path, err)
	}
	if _, err := Shell(RunningNode{Lab: "l", Node: "n"}, []string{"no-such-program"}, weft, os.Environ()); err == nil {
		t.Error("finds a program that is not there")
	}
}
