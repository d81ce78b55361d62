package repository

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"weft/internal/lab"
)

// packages returns what tools/setup.sh installs for a task.
func packages(t *testing.T, task string) (list []string) {
	t.Helper()
	for line := range strings.Lines(run(t, "tools/setup.sh", "--list")) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == task {
			list = append(list, words[1])
		}
	}
	if len(list) == 0 {
		t.Fatalf("nothing is listed for %s", task)
	}
	return list
}

// brings are the packages of programs that scenarios call inside of shell
// commands and scripts, where no field says what they need.
var brings = map[string]string{
	"bird": "bird2", "birdc": "bird2", "bpftool": "bpftool", "conntrack": "conntrack", "curl": "curl", "dhclient": "isc-dhcp-client",
	"dhcp6c": "wide-dhcpv6-client", "dig": "bind9-dnsutils", "ethtool": "ethtool", "freeradius": "freeradius", "iperf3": "iperf3",
	"jool_siit": "jool-tools", "keepalived": "keepalived", "l2tpns": "l2tpns", "nft": "nftables", "openssl": "openssl", "pgrep": "procps",
	"ping": "iputils-ping", "pppd": "ppp", "python3": "python3", "radclient": "freeradius-utils", "radvd": "radvd", "rdnssd": "rdnssd",
	"sqlite3": "sqlite3", "ss": "iproute2", "tayga": "tayga", "tc": "iproute2", "xl2tpd": "xl2tpd",
}

// base are programs of every Debian system (their packages are essential).
var base = []string{"{weft}", "bash", "env", "ip", "mount", "sed", "sh", "sleep", "sysctl", "timeout", "unshare"}

var word = regexp.MustCompile(`[a-z0-9_.-]+`)

// Every lab is run by the tests: what it runs, setup.sh installs for them.
func TestTheSetUpScriptInstallsWhatLabsRun(t *testing.T) {
	installs := packages(t, "test")
	sources, err := lab.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	for _, src := range sources {
		s, err := lab.Parse(src)
		if err != nil {
			t.Fatal(err)
		}
		check := func(what, needs string) {
			for _, p := range strings.Fields(needs) {
				if !slices.Contains(installs, p) {
					t.Errorf("%s: %s needs the package %s, which tools/setup.sh test does not install", src.File, what, p)
				}
			}
		}
		commands := func(texts ...string) {
			for _, text := range texts {
				for _, w := range word.FindAllString(text, -1) {
					check(w, brings[w])
				}
			}
		}
		for _, n := range s.Nodes {
			for _, p := range n.Processes {
				check("process "+p.Name, p.Needs)
				if first := p.Argv[0]; p.Needs == "" && brings[first] == "" && !slices.Contains(base, first) {
					t.Errorf("%s: process %s of %s runs %s and does not say what it needs", src.File, p.Name, n.Name, first)
				}
				commands(p.Argv...)
				commands(p.Ready...)
			}
			for _, p := range n.Programs {
				check("program "+p.Name, p.Needs)
				commands(p.Name)
			}
			for _, text := range n.Files {
				commands(text)
			}
			commands(n.Script)
		}
		for _, c := range s.Checks {
			commands(c.Argv...)
		}
	}
}

// What benches ask for by rig.Program is installed for them, and for the tests,
// which start every subject once.
func TestTheSetUpScriptInstallsWhatBenchesRun(t *testing.T) {
	found := 0
	err := filepath.WalkDir(filepath.Join(root, "internal/bench"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			kv, is := n.(*ast.KeyValueExpr)
			if !is {
				return true
			}
			key, _ := kv.Key.(*ast.Ident)
			value, _ := kv.Value.(*ast.BasicLit)
			if key == nil || key.Name != "Package" || value == nil {
				return true
			}
			name, err := strconv.Unquote(value.Value)
			if err != nil {
				t.Error(err)
			}
			found++
			for _, task := range []string{"bench", "test"} {
				if !slices.Contains(packages(t, task), name) {
					t.Errorf("%s needs the package %s, which tools/setup.sh %s does not install", path, name, task)
				}
			}
			return true
		})
		return nil
	})
	if err != nil || found == 0 {
		t.Errorf("%d programs found: %v", found, err)
	}
}
