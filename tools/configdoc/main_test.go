package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weft/internal/config"
)

func TestTheReferenceIsUpToDate(t *testing.T) {
	for name, want := range pages() {
		got, err := os.ReadFile(filepath.Join("../../docs/reference", name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("docs/reference/%s is out of date: go run ./tools/configdoc docs/reference", name)
		}
	}
}

func TestEveryExampleLoadsWithoutProblems(t *testing.T) {
	files, err := filepath.Glob("../../examples/*.toml")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 3 {
		t.Fatalf("%d examples, want 3 at least", len(files))
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, problems := config.Load(filepath.Base(file), text, sections())
		for _, p := range problems {
			t.Error(p)
		}
	}
}

// The blocks of the reference show every key at once, so they are held to the
// decoder alone, not to the checks between keys.
func TestTheExamplesInTheReferenceDecode(t *testing.T) {
	var all strings.Builder
	for i, block := range strings.Split(config.Reference(sections()), "```") {
		if text, ok := strings.CutPrefix(block, "toml\n"); ok && i%2 == 1 {
			all.WriteString(text)
		}
	}
	unchecked := sections()
	for i := range unchecked {
		unchecked[i].Check = nil
	}
	f, problems := config.Load("weft.toml.md", []byte(all.String()), unchecked)
	for _, p := range problems {
		t.Error(p)
	}
	for _, s := range unchecked {
		if !f.Given(s.Name) {
			t.Errorf("the reference has no example of [%s]", s.Name)
		}
	}
}
