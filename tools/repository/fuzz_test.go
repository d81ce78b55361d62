package repository

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// make fuzz runs every fuzz target that there is, wherever it stands.
func TestMakeFuzzRunsEveryTarget(t *testing.T) {
	var want []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "build"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			if f, is := d.(*ast.FuncDecl); is && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Fuzz") {
				want = append(want, "weft/"+filepath.ToSlash(dir)+" "+f.Name.Name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSpace(run(t, "tools/fuzz.sh", "--list")), "\n")
	slices.Sort(want)
	slices.Sort(got)
	if len(want) < 30 || !slices.Equal(got, want) {
		t.Errorf("make fuzz runs\n%s\nand there are\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Each package that reads what others send has a target.
func TestEveryParserIsFuzzed(t *testing.T) {
	list := run(t, "tools/fuzz.sh", "--list")
	for _, name := range []string{
		"wire/dhcp6", "wire/sessionsync", "wire/ipv6", "wire/l2tp", "wire/oversize", "wire/ppp", "internal/aaa", "internal/config", "internal/dhcp6client", "internal/feature/lns", "internal/subscriber", "internal/ppp", "internal/l2tp", "internal/feature/dns64",
		"internal/feature/guard", "internal/feature/nat64", "internal/allocationlog", "internal/addresspool", "internal/feature/ra", "internal/importer", "internal/kernel/netfilter", "internal/kernel/rtnetlink", "internal/trace", "internal/translate",
	} {
		if !strings.Contains(list, "weft/"+name+" Fuzz") {
			t.Errorf("%s has no fuzz target", name)
		}
	}
}
