package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// beyond are the folders that weft run does not link, or only for commands of
// their own: labs, measurements, simulations, traces, pages, tools of tests.
func beyond() []string {
	return []string{
		"internal/importer/openwrt", "internal/lab", "internal/bench", "internal/trace", "internal/simulate", "internal/web", "internal/testbin", "internal/mutator", "internal/archtest", "internal/instance",
		"internal/translate/packetgen", "internal/translate/session", "internal/config/configtest", "internal/reconcile/kindtest", "internal/datapath/datapathtest", "cmd/weft/internal/probe",
	}
}

// routerFile is a hand-written source file of the router, tests left out.
type routerFile struct {
	path  string // below the module
	text  string
	set   *token.FileSet
	ast   *ast.File
	lines int
}

func routerFiles(t *testing.T) (files []routerFile) {
	t.Helper()
	base := root(t)
	for _, top := range []string{"internal", "cmd"} {
		err := filepath.WalkDir(filepath.Join(base, top), func(name string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "_bpfel.go") || strings.HasSuffix(name, "_gen.go") {
				return err
			}
			path, err := filepath.Rel(base, name)
			if err != nil || slices.ContainsFunc(beyond(), func(b string) bool { return inside(filepath.Dir(path), b) }) {
				return err
			}
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			files = append(files, parsed(t, path, string(text)))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(files) < 300 {
		t.Fatalf("%d files: that is not all of the router", len(files))
	}
	return files
}

func parsed(t *testing.T, path, text string) routerFile {
	t.Helper()
	f := routerFile{path: path, text: text, set: token.NewFileSet(), lines: strings.Count(text, "\n")}
	var err error
	if f.ast, err = parser.ParseFile(f.set, path, text, parser.ParseComments); err != nil {
		t.Fatal(err)
	}
	return f
}

// Only internal/task starts goroutines: what it starts cannot end the process by
// a panic, and is awaited.
func TestOnlyTasksStartGoroutines(t *testing.T) {
	for _, f := range routerFiles(t) {
		if inside(filepath.Dir(f.path), "internal/task") {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if g, is := n.(*ast.GoStmt); is {
				t.Errorf("%s:%d has a go statement; internal/task starts goroutines", f.path, f.set.Position(g.Pos()).Line)
			}
			return true
		})
	}
}

// mutexes are the leaf data structures that may have one: what several goroutines
// look at, where a loop that owns a state would only be in the way.
func mutexes() []string {
	return []string{
		"internal/aaa/client.go", "internal/aaa/line.go", "internal/aaa/queue.go", "internal/aaa/repeat.go",
		"internal/bus/bus.go", "internal/bus/natsbus/backlog.go", "internal/bus/natsbus/bus.go", "internal/bus/natsbus/gate.go",
		"internal/daemon/listen.go", // which configuration is in force
		"internal/datapath/datapath.go", "internal/datapath/nat64table/share.go", "internal/datapath/subscribertable/subscribers.go",
		"internal/dnsio/ask.go", "internal/dnsio/listen.go", "internal/dnsio/peer.go", "internal/dnsio/shares.go", "internal/dnsio/streams.go",
		"internal/feature/dns64/cache.go", "internal/feature/dns64/limit.go", "internal/feature/dns64/resolve.go",
		"internal/feature/lns/lnsrun/inbox.go", "internal/feature/ra/rarun/requests.go", // bounded queues between a socket's reader and its loop
		"internal/feature/nat64/nat64run/discovery.go", "internal/feature/nat64/syns.go",
		"internal/feature/ra/rarun/link.go",
		"internal/helper/helper.go", "internal/helper/words.go",
		"internal/kernel/netfilter/events.go", "internal/kernel/rtnetlink/feed.go",
		"internal/task/guard.go", "internal/task/task.go",
	}
}

func TestMutexesAreInLeafDataStructuresOnly(t *testing.T) {
	var found []string
	for _, f := range routerFiles(t) {
		if !strings.Contains(f.text, "sync.Mutex") && !strings.Contains(f.text, "sync.RWMutex") {
			continue
		}
		found = append(found, f.path)
		if !slices.Contains(mutexes(), f.path) {
			t.Errorf("%s has a mutex: a loop that owns its state is asked by messages (task.Loop, task.Mailbox); a leaf data structure is listed here", f.path)
		}
	}
	for _, path := range mutexes() {
		if !slices.Contains(found, path) {
			t.Errorf("%s has no mutex any more: take it out of the list", path)
		}
	}
}

// Sizes in lines, of hand-written code without tests.
const (
	packageMost  = 3500
	functionMost = 80
	daemonMost   = 1500
)

func TestNoPackageOrFunctionOfTheRouterIsTooLarge(t *testing.T) {
	sizes := map[string]int{}
	for _, f := range routerFiles(t) {
		dir := filepath.Dir(f.path)
		sizes[dir] += f.lines
		for _, d := range f.ast.Decls {
			fn, is := d.(*ast.FuncDecl)
			if !is {
				continue
			}
			if n := f.set.Position(fn.End()).Line - f.set.Position(fn.Pos()).Line + 1; n > functionMost {
				t.Errorf("%s: %s has %d lines, most is %d", f.path, fn.Name.Name, n, functionMost)
			}
		}
	}
	for dir, n := range sizes {
		most := packageMost
		if dir == "internal/daemon" {
			most = daemonMost
		}
		if n > most {
			t.Errorf("%s has %d lines of hand-written code, most is %d", dir, n, most)
		}
	}
}
