package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The page that describes the house names what is there.
func TestThePageNamesEveryRoomAndHeader(t *testing.T) {
	base := root(t)
	text, err := os.ReadFile(filepath.Join(base, "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rooms, _ := strings.Cut(string(text), "## Rooms")
	rooms, _, _ = strings.Cut(rooms, "## Who may import whom")
	words := map[string]bool{}
	for _, w := range regexp.MustCompile(`[\w./-]+`).FindAllString(rooms, -1) {
		words[strings.TrimRight(w, "./")] = true
	}
	folders, err := filepath.Glob(filepath.Join(base, "internal", "*"))
	if err != nil || len(folders) < 10 {
		t.Fatalf("%d rooms: %v", len(folders), err)
	}
	features, _ := filepath.Glob(filepath.Join(base, "internal", "feature", "*"))
	codecs, _ := filepath.Glob(filepath.Join(base, "wire", "*"))
	for _, f := range append(append(folders, features...), codecs...) {
		if !words[filepath.Base(f)] {
			t.Errorf("docs/architecture.md does not name %s", strings.TrimPrefix(f, base+"/"))
		}
	}
	for _, s := range sources(t) {
		name := strings.TrimSuffix(s.name, ".h")
		// parts of a block are named by what sets them apart: nat64_state.h, _maps
		whole, part, parted := strings.Cut(name, "_")
		inState := strings.TrimPrefix(part, "state_")
		named := words[s.name] || parted && words[whole+".h"] && (words["_"+part] || words["_"+inState])
		if s.folder != "" && !named && !words[whole+"_"+part] {
			t.Errorf("docs/architecture.md does not name bpf/%s/%s", s.folder, s.name)
		}
	}
	// and nothing that is not there
	for _, header := range regexp.MustCompile(`\b[a-z0-9_]+\.h\b`).FindAllString(rooms, -1) {
		found, _ := filepath.Glob(filepath.Join(base, "bpf", "*", header))
		programs, _ := filepath.Glob(filepath.Join(base, "bpf", header))
		if len(found)+len(programs) == 0 {
			t.Errorf("docs/architecture.md names %s, which is not there", header)
		}
	}
}
