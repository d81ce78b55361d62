package archtest

import (
	"go/ast"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// touchedMost is in how many hand-written source files outside its folder and bpf/ a
// feature may stand: a new feature is one folder, and a line here and there.
const touchedMost = 5

// touchedToday lists the features that stand in more files, with how many. The number
// may fall; it may not rise.
func touchedToday() map[string]int {
	return map[string]int{"bridge": 16, "host": 12, "lns": 20, "nat64": 31, "offload": 16, "pseudowire": 17, "route": 12}
}

// A file is counted if it
//
//   - imports a package of the feature or its typed tables, or is one of those tables,
//   - declares or uses an object of internal/state that no other feature plans,
//   - names a section of the feature in a string.
//
// Tests and generated files are not counted, nor what beyond lists: labs and benchmarks
// try a feature, and weft works without them.
func TestAFeatureStandsInFewFilesOutsideItsFolder(t *testing.T) {
	found := touched(routerFiles(t))
	if len(found) < 10 {
		t.Fatalf("there are %d features: those are not all", len(found))
	}
	for name, places := range found {
		t.Logf("%s: %d", name, len(places))
		most, listed := touchedToday()[name]
		if !listed {
			most = touchedMost
		}
		if listed && len(places) < most {
			t.Errorf("feature %s stands in %d files outside its folder; the list says %d: correct it", name, len(places), most)
		}
		if len(places) > most {
			t.Errorf("feature %s stands in %d files outside its folder, most is %d:\n\t%s", name, len(places), most, strings.Join(places, "\n\t"))
		}
	}
}

func TestFilesThatNameAFeatureAreFound(t *testing.T) {
	file := func(path, text string) routerFile { return parsed(t, path, "package x\n"+text) }
	found := touched([]routerFile{
		file("internal/feature/guard/plan.go", "import \"weft/internal/state\"\nvar _ = config.Section{Name: \"guard\"}\nvar _ = state.Guard{}\nvar _ = state.Part{}"),
		file("internal/feature/other/plan.go", "import \"weft/internal/state\"\nvar _ = state.Part{}"),
		file("internal/datapath/guardtable/guard.go", ""),
		file("internal/state/guard.go", "type Guard struct{}\nfunc (g Guard) Key() string { return \"\" }"),
		file("internal/state/kinds.go", "var x = Guard{}"),
		file("internal/state/part.go", "type Part struct{}"),
		file("internal/plan/plan.go", "import \"weft/internal/state\"\nvar _ = state.Part{}"),
		file("internal/features/features.go", "import (\n\"weft/internal/feature/guard\"\n\"weft/internal/feature/other\"\n)"),
		file("internal/config/hint.go", "var _ = \"write a [guard.NAME]\""),
		file("internal/task/guard.go", "type Guard struct{}"),
	})
	want := []string{"internal/config/hint.go", "internal/datapath/guardtable/guard.go", "internal/features/features.go", "internal/state/guard.go", "internal/state/kinds.go"}
	if !slices.Equal(found["guard"], want) {
		t.Errorf("guard stands in %q, want %q", found["guard"], want)
	}
	if want := []string{"internal/features/features.go"}; !slices.Equal(found["other"], want) {
		t.Errorf("other stands in %q, want %q", found["other"], want)
	}
}

// ownerOf returns the feature whose folder or typed tables a package is.
func ownerOf(dir string) (feature string, table bool) {
	if below, is := strings.CutPrefix(dir, "internal/feature/"); is {
		feature, _, _ = strings.Cut(below, "/")
		return feature, false
	}
	below, _ := strings.CutPrefix(dir, "internal/datapath/")
	if of := tables()[below]; len(of) > 0 {
		return of[0], true
	}
	name, is := strings.CutSuffix(below, "table")
	if !is || strings.Contains(name, "/") {
		return "", false
	}
	return name, true
}

// elsewhere answers words of other routers by sections of weft: it is the user's words
// that change it, no feature.
const elsewhere = "internal/config/elsewhere.go"

// touched lists the files outside its folder that each feature stands in.
func touched(files []routerFile) map[string][]string {
	sections, users := map[string][]string{}, map[string][]string{} // users: of names of internal/state
	for _, f := range files {
		owner, table := ownerOf(filepath.Dir(f.path))
		if owner == "" {
			continue
		}
		if !table {
			sections[owner] = append(sections[owner], sectionsOf(f.ast)...)
		}
		for _, name := range stateNames(f) {
			if !slices.Contains(users[name], owner) {
				users[name] = append(users[name], owner)
			}
		}
	}
	var objects []string
	for _, f := range files {
		objects = append(objects, objectsOf(f)...)
	}
	found := map[string][]string{}
	for _, f := range files {
		owner, table := ownerOf(filepath.Dir(f.path))
		for feature := range sections {
			if owner == feature && !table || f.path == elsewhere {
				continue
			}
			names := func(name string) bool {
				return slices.Contains(objects, name) && slices.Equal(users[name], []string{feature})
			}
			if owner == feature || imports(f, feature) || slices.ContainsFunc(stateNames(f), names) || says(f, sections[feature]) {
				found[feature] = append(found[feature], f.path)
			}
		}
	}
	for _, places := range found {
		slices.Sort(places)
	}
	return found
}

func imports(f routerFile, feature string) bool {
	return slices.ContainsFunc(f.ast.Imports, func(i *ast.ImportSpec) bool {
		path, _ := strconv.Unquote(i.Path.Value)
		owner, _ := ownerOf(strings.TrimPrefix(path, module))
		return owner == feature
	})
}

// objectsOf returns the types of internal/state that are objects: those with a key.
func objectsOf(f routerFile) (names []string) {
	if filepath.Dir(f.path) != "internal/state" {
		return nil
	}
	for _, d := range f.ast.Decls {
		if fn, is := d.(*ast.FuncDecl); is && fn.Recv != nil && len(fn.Recv.List) == 1 && fn.Name.Name == "Key" {
			if receiver, is := fn.Recv.List[0].Type.(*ast.Ident); is {
				names = append(names, receiver.Name)
			}
		}
	}
	return names
}

// stateNames returns the names of internal/state in a file: of the package itself those
// that a file may declare.
func stateNames(f routerFile) (names []string) {
	own := filepath.Dir(f.path) == "internal/state"
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, is := n.X.(*ast.Ident); is && x.Name == "state" {
				names = append(names, n.Sel.Name)
			}
			if own {
				ast.Inspect(n.X, func(n ast.Node) bool {
					if i, is := n.(*ast.Ident); is && i.IsExported() {
						names = append(names, i.Name)
					}
					return true
				})
				return false // not the name of a field
			}
		case *ast.Field:
			if own {
				n.Names = nil
			}
		case *ast.KeyValueExpr:
			if _, field := n.Key.(*ast.Ident); own && field {
				n.Key = &ast.BadExpr{}
			}
		case *ast.FuncDecl:
			if own && n.Recv != nil {
				n.Name = ast.NewIdent("_")
			}
		case *ast.Ident:
			if own && n.IsExported() {
				names = append(names, n.Name)
			}
		}
		return true
	})
	return names
}

// says reports whether a string names one of those sections as users write them.
func says(f routerFile, sections []string) (found bool) {
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if lit, is := n.(*ast.BasicLit); is && lit.Kind == token.STRING {
			found = found || slices.ContainsFunc(sections, func(s string) bool {
				return strings.Contains(lit.Value, "["+s+"]") || strings.Contains(lit.Value, "["+s+".")
			})
		}
		return !found
	})
	return found
}
