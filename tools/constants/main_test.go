package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

// folders are those of the typed tables.
func folders(t *testing.T) (list []string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, "internal", "datapath", "*table"))
	if err != nil || len(found) < 8 {
		t.Fatalf("%d packages of typed tables (%v)", len(found), err)
	}
	for _, f := range found {
		list = append(list, strings.TrimPrefix(filepath.ToSlash(f), root+"/"))
	}
	return list
}

func TestNumbersInGoAreThoseInC(t *testing.T) {
	module := t.TempDir()
	for _, pkg := range append(folders(t), "internal/state", "internal/datapath", "internal/slowpath", "fib") {
		if err := os.MkdirAll(filepath.Join(module, pkg), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := run(filepath.Join(root, "bpf"), module); err != nil {
		t.Fatal(err)
	}
	files := 0
	err := filepath.WalkDir(module, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		name, err := filepath.Rel(module, path)
		if err != nil {
			return err
		}
		now, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		committed, err := os.ReadFile(filepath.Join(root, name))
		if !bytes.Equal(now, committed) {
			t.Errorf("%s is not what the C says: make generate (%v)", name, err)
		}
		return nil
	})
	if err != nil || files < 4 {
		t.Errorf("%d files are generated (%v)", files, err)
	}
}

// A constant written by hand that has the name of one in C, or says in its comment
// that it is one, is to be generated.
func TestNumbersOfTheCAreWrittenByHandNowhereInGo(t *testing.T) {
	sources, err := read(filepath.Join(root, "bpf"))
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for _, s := range sources {
		if _, err := parse(s, values); err != nil {
			t.Fatal(err)
		}
	}
	if len(values) < 300 {
		t.Fatalf("the C has %d constants only", len(values))
	}
	seen := 0
	for _, folder := range append(folders(t), "fib", "internal/datapath", "internal/slowpath", "internal/state", "internal/feature/bridge", "internal/feature/nat64") {
		files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if strings.HasSuffix(f, "_test.go") || strings.HasSuffix(f, "_gen.go") || strings.HasSuffix(f, "_bpfel.go") {
				continue
			}
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			faults, n := copies(t, f, string(text), values)
			seen += n
			for _, fault := range faults {
				t.Errorf("%s: %s", f, fault)
			}
		}
	}
	if seen < 50 {
		t.Errorf("%d constants were seen only", seen)
	}
}

var cName = regexp.MustCompile(`\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b`)

// copies lists the constants of a Go file that repeat one of the C, and says how many
// constants there are.
func copies(t *testing.T, name, text string, c map[string]string) (faults []string, seen int) {
	t.Helper()
	plain := map[string]string{}
	for n := range c {
		plain[strings.ToLower(strings.ReplaceAll(n, "_", ""))] = n
	}
	f, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			v := s.(*ast.ValueSpec)
			seen++
			if of := plain[strings.ToLower(v.Names[0].Name)]; of != "" {
				faults = append(faults, v.Names[0].Name+" is "+of+" of the C")
			}
			for _, word := range cName.FindAllString(g.Doc.Text()+v.Doc.Text()+v.Comment.Text(), -1) {
				if _, ok := c[word]; ok {
					faults = append(faults, v.Names[0].Name+" says that it is "+word+" of the C")
				}
			}
		}
	}
	return faults, seen
}

func TestCopiesAreNoticed(t *testing.T) {
	c := map[string]string{"FLOW_HOPS": "4096", "INTERFACES_NEAR": "256"}
	for text, want := range map[string]int{
		"const flowHops = 4096":                              1,
		"const near = 256 // INTERFACES_NEAR":                1,
		"// near is INTERFACES_NEAR of C.\nconst near = 256": 1,
		"const (\n\tother = 1 // RTM_NEWLINK\n)":             0,
		"var flowHops = 4096":                                0,
	} {
		if faults, _ := copies(t, "some.go", "package p\n\n"+text, c); len(faults) != want {
			t.Errorf("%q: %q, want %d", text, faults, want)
		}
	}
}

func TestEnumsAndDefinesBecomeConstants(t *testing.T) {
	text := `/* how many */
/* go: state TABLES=TablesMax */
#define TABLES (1U << SHIFT)
#define SHIFT 8 /* bits */

#define NOT_SHARED 3
/* what is said */
/* go: state.Kind KIND=Kind names */
enum kind {
	KIND_NONE,
	/* in between */
	KIND_XDP_OUT = 4, /* out by XDP */
	KIND_LAST,
	KINDS,
};
enum other {
	OTHER,
};
`
	text = strings.Replace(text, "/* go: state TABLES=TablesMax */\n", "/* go: state =Max */\n", 1)
	lists, err := shared([]source{{"lib/x.h", text}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := render("state", lists)
	if err != nil {
		t.Fatal(err)
	}
	want := `// Code generated by tools/constants from bpf/; DO NOT EDIT.

package state

// From bpf/lib/x.h: how many.
const (
	MaxTables = 256
	MaxShift  = 8 // bits
)

// From enum kind of bpf/lib/x.h: what is said.
const (
	KindNone   Kind = 0
	KindXDPOut Kind = 4 // out by XDP
	KindLast   Kind = 5
	Kinds      Kind = 6
)

// kindNames lists the names that users see.
func kindNames() []string {
	return []string{"none", "xdp-out", "last"}
}
`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestWhatIsMarkedAndNotUnderstoodIsSaid(t *testing.T) {
	for text, want := range map[string]string{
		"/* go: state.A words extra */\nenum a {\n};":               "no mark of a known form",
		"/* go: state */\n\nenum a {\n};":                           "neither an enum nor",
		"/* go: state.A */\nenum a {\n\tA, B,\n};":                  "not of the form",
		"/* go: state */\n#define A B":                              "B is not known",
		"/* go: state */\n#define A A":                              "defined by itself",
		"/* go: state */\n#define A \"text\"":                       "is no integer",
		"/* go: state.A words */\nenum a {\n\tA, /* a */\n\tB,\n};": "B is not explained",
		"/* go: state X_=Y */\n#define A 1":                         "does not begin with X_",
	} {
		lists, err := shared([]source{{"x.h", text}})
		if err == nil {
			_, err = render("state", lists)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
