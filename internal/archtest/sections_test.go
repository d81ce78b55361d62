package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A feature reads its own sections of weft.toml and the core's. What another
// one's say reaches it by roles (config.Uses) or as a fact.
func TestAFeatureNamesOnlyItsOwnSections(t *testing.T) {
	sections, uses := map[string][]string{}, map[string][]sectionUse{}
	for name, files := range features(t) {
		for _, f := range files {
			sections[name] = append(sections[name], sectionsOf(f)...)
			uses[name] = append(uses[name], usesOf(f)...)
		}
	}
	all := slices.Concat(slices.Collect(maps.Values(sections))...)
	if len(all) < 12 {
		t.Fatalf("the features have the sections %q: those are not all", all)
	}
	n := 0
	for name, list := range uses {
		for _, u := range list {
			n++
			if slices.Contains(all, u.section) && !slices.Contains(sections[name], u.section) {
				t.Errorf("internal/feature/%s: %s names [%s], which is another feature's", name, u.call, u.section)
			}
		}
	}
	if n < 40 {
		t.Errorf("features name a section %d times: that are not all", n)
	}
}

func TestSectionsOfOthersAreNoticed(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "x.go", `package x
func x(c *config.Checker) {
	c.Given("guard")
	_ = config.Section{Name: "guard"}
	_ = []config.Section{{Name: "block"}}
	f.Given("route")
	c.File().Names("nat64." + name)
	f.Get(fmt.Sprintf("ra.%s.dns", name), "")
	f.Given(path)
}`, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := sectionsOf(f); !slices.Equal(got, []string{"guard", "block"}) {
		t.Errorf("the sections are %q", got)
	}
	var got []string
	for _, u := range usesOf(f) {
		got = append(got, u.call+" "+u.section)
	}
	if want := []string{"Given route", "Names nat64", "Get ra"}; !slices.Equal(got, want) {
		t.Errorf("the uses are %q, want %q", got, want)
	}
}

// features returns the files of each feature, tests left out.
func features(t *testing.T) map[string][]*ast.File {
	t.Helper()
	base := filepath.Join(root(t), "internal", "feature")
	all := map[string][]*ast.File{}
	err := filepath.WalkDir(base, func(path string, d os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		rel, err := filepath.Rel(base, path)
		if err != nil {
			return err
		}
		name, _, inside := strings.Cut(rel, string(filepath.Separator))
		if !inside {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		all[name] = append(all[name], f)
		return err
	})
	if err != nil || len(all) < 10 {
		t.Fatalf("%d features: %v", len(all), err)
	}
	return all
}

// sectionsOf returns the names of the config.Section values of a file.
func sectionsOf(f *ast.File) (names []string) {
	section := func(e ast.Expr) bool {
		s, ok := e.(*ast.SelectorExpr)
		return ok && s.Sel.Name == "Section"
	}
	ast.Inspect(f, func(n ast.Node) bool {
		lit, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		if list, ok := lit.Type.(*ast.ArrayType); ok && section(list.Elt) {
			for _, e := range lit.Elts {
				if inner, ok := e.(*ast.CompositeLit); ok && inner.Type == nil {
					names = append(names, named(inner)...)
				}
			}
		}
		if section(lit.Type) {
			names = append(names, named(lit)...)
		}
		return true
	})
	return names
}

func named(lit *ast.CompositeLit) (names []string) {
	for _, e := range lit.Elts {
		kv, ok := e.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		if key, ok := kv.Key.(*ast.Ident); ok && key.Name == "Name" {
			names = append(names, text(kv.Value))
		}
	}
	return names
}

type sectionUse struct{ call, section string }

// usesOf returns the calls that ask a config.File for a section by a literal.
func usesOf(f *ast.File) (uses []sectionUse) {
	asks := []string{"Given", "Names", "Get", "Position"}
	var checkers []string // a config.Checker is asked for keys of its own section
	ast.Inspect(f, func(n ast.Node) bool {
		if field, ok := n.(*ast.Field); ok && isChecker(field.Type) {
			for _, name := range field.Names {
				checkers = append(checkers, name.Name)
			}
		}
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		if s, ok := call.Fun.(*ast.SelectorExpr); ok && slices.Contains(asks, s.Sel.Name) {
			if x, ok := s.X.(*ast.Ident); ok && slices.Contains(checkers, x.Name) {
				return true
			}
			if section, _, _ := strings.Cut(text(call.Args[0]), "."); section != "" {
				uses = append(uses, sectionUse{s.Sel.Name, section})
			}
		}
		return true
	})
	return uses
}

func isChecker(e ast.Expr) bool {
	star, ok := e.(*ast.StarExpr)
	if !ok {
		return false
	}
	s, ok := star.X.(*ast.SelectorExpr)
	return ok && s.Sel.Name == "Checker"
}

// text returns what a string begins with, as far as it is written out.
func text(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, _ := strconv.Unquote(e.Value)
		return s
	case *ast.BinaryExpr:
		return text(e.X)
	case *ast.CallExpr: // fmt.Sprintf
		if s, ok := e.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Sprintf" && len(e.Args) > 0 {
			return text(e.Args[0])
		}
	}
	return ""
}
