package archtest

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// use is who imports a library: packages, named without the module, and
// packages whose tests alone do.
type use struct {
	packages, tests []string
}

// libraries lists who imports each direct dependency of go.mod.
func libraries(t *testing.T) map[string]use {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]use{}
	for _, m := range regexp.MustCompile(`(?m)^\t(\S+) v\S+$`).FindAllStringSubmatch(string(text), -1) {
		all[m[1]] = use{}
	}
	c := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", module+"...")
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath                         string
			Imports, TestImports, XTestImports []string
		}
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		path := strings.TrimPrefix(p.ImportPath, module)
		for library, u := range all {
			of := func(i string) bool { return inside(i, library) }
			switch {
			case slices.ContainsFunc(p.Imports, of):
				u.packages = append(u.packages, path)
			case slices.ContainsFunc(slices.Concat(p.TestImports, p.XTestImports), of):
				u.tests = append(u.tests, path)
			}
			all[library] = u
		}
	}
}

// many is from how many packages on a row may say "many".
const many = 15

// doorFaults compares a row's column "behind which door" with who imports the
// library. The column is a list of folders; a note in brackets may follow each
// one, and "tests of FOLDER" stands for tests, where nothing else imports it.
func doorFaults(column string, u use) (list []string) {
	if column == "many" {
		if len(u.packages) < many {
			list = append(list, "is imported by "+strings.Join(u.packages, ", ")+": that is not many")
		}
		return list
	}
	column = regexp.MustCompile(`\s*\([^)]*\)`).ReplaceAllString(column, "")
	named, namedTests := []string{}, []string{}
	for _, entry := range strings.Split(column, ", ") {
		if folder, ok := strings.CutPrefix(entry, "tests of "); ok {
			namedTests = append(namedTests, folder)
		} else {
			named = append(named, entry)
		}
	}
	compare := func(what string, named, real []string, whole bool) {
		for _, folder := range named {
			if !slices.ContainsFunc(real, func(p string) bool { return inside(p, folder) }) {
				list = append(list, "is not imported by "+what+folder)
			}
		}
		for _, p := range real {
			if whole && !slices.ContainsFunc(named, func(folder string) bool { return inside(p, folder) }) {
				list = append(list, "is imported by "+what+p+", which the row does not name")
			}
		}
	}
	compare("", named, u.packages, true)
	compare("tests of ", namedTests, u.tests, len(u.packages) == 0)
	return list
}

// The page of libraries says where each one is used.
func TestThePageOfLibrariesNamesTheirDoors(t *testing.T) {
	const page = "docs/decisions/0004-dependencies.md"
	text, err := os.ReadFile(filepath.Join(root(t), page))
	if err != nil {
		t.Fatal(err)
	}
	all := libraries(t)
	if len(all) < 10 {
		t.Fatalf("go.mod has %d direct dependencies: it was not understood", len(all))
	}
	for library, u := range all {
		row := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(library) + ` \| [^|]* \| ([^|]*) \|`).FindStringSubmatch(string(text))
		if row == nil {
			t.Errorf("%s has no row for %s", page, library)
			continue
		}
		for _, fault := range doorFaults(row[1], u) {
			t.Errorf("%s: %s %s", page, library, fault)
		}
	}
}

func TestTheCheckOfDoorsNoticesWhatIsWrong(t *testing.T) {
	here := use{packages: []string{"internal/aaa", "wire/ppp"}, tests: []string{"internal/daemon"}}
	onlyTests := use{tests: []string{"internal/bus"}}
	for _, c := range []struct {
		column string
		u      use
		want   string
	}{
		{"internal/aaa, wire/ppp", here, ""},
		{"internal/aaa, wire (arithmetic, of MS-CHAP)", here, ""},
		{"internal/aaa, wire/ppp, tests of internal/daemon", here, ""},
		{"internal/aaa", here, "is imported by wire/ppp"},
		{"internal/aaa, wire/ppp, internal/kernel", here, "is not imported by internal/kernel"},
		{"internal/aaa, wire/ppp, tests of fib", here, "is not imported by tests of fib"},
		{"many", here, "not many"},
		{"tests of internal/bus", onlyTests, ""},
		{"tests of internal/aaa", onlyTests, "is imported by tests of internal/bus"},
		{"internal/bus", onlyTests, "is not imported by internal/bus"},
	} {
		got := strings.Join(doorFaults(c.column, c.u), "; ")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%q: %q, want %q", c.column, got, c.want)
		}
	}
}
