package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// opener is a package that opens what the network reaches, and what reads the bytes.
type opener struct {
	parsers []string // names of mutator.Parser in tests
	why     string   // none is needed, or what else there is
}

// openers lists each package of the router that opens sockets or devices.
func openers() map[string]opener {
	return map[string]opener{
		"internal/dnsio":            {parsers: []string{"dns-query", "dns-answer"}},
		"internal/pingio":           {why: "golang.org/x/net/icmp reads at most 1500 bytes of an echo reply, by fixed offsets; other messages are passed over by their type"},
		"internal/ndpio":            {parsers: []string{"router-discovery"}},
		"internal/dhcp6io":          {parsers: []string{"dhcpv6"}},
		"internal/dhcp4io":          {parsers: []string{"dhcpv4-server", "dhcpv4-client"}},
		"internal/packetio":         {parsers: []string{"arp", "udp-ipv4"}, why: "internal/dhcp4io reads the payload of the datagrams"},
		"internal/l2tpio":           {parsers: []string{"l2tp", "lns", "l2tp_client", "ppp", "dhcpv6-subscriber", "dhcpv6-client"}},
		"internal/aaa":              {parsers: []string{"radius-orders", "radius-answers"}},
		"internal/slowpath":         {parsers: []string{"nat64", "nat64-stateful", "lns-packets"}},
		"internal/helper":           {why: "the line to weft's own helpers, which are of its version; its frames are tested cut and too large"},
		"internal/bus":              {why: "reads certificates from files"},
		"internal/bus/natsbus":      {parsers: []string{"session-sync"}, why: "NATS reads what comes before: peers have shown a certificate, or know the secret"},
		"internal/api":              {parsers: []string{"http"}},
		"internal/kernel/nlconn":    {parsers: []string{"refusals", "connections"}, why: "netlink: what the kernel says holds headers of packets"},
		"internal/kernel/rtnetlink": {why: "netlink: of what the network says the kernel has made routes and neighbours; FuzzMessages reads it"},
		"internal/syslog":           {why: "what a collector sends is discarded unread"},
		"internal/ethtool":          {why: "a socket for an ioctl"},
		"internal/kernel":           {why: "netlink, see internal/kernel/nlconn"},
		"internal/kernel/driver":    {why: "netlink: what a driver can do"},
		"internal/paths":            {why: "a socket whose cookie is the name of the namespace"},
		"internal/datapath":         {why: "a socket whose cookie is the name of the namespace"},
		"internal/datapath/ability": {why: "it tries whether it may, and reads nothing"},
	}
}

// outside are parsers of what reaches weft without a socket of the router.
func outside() []string { return []string{"capture"} }

// opens reports whether a file opens something that others send to.
func opens(f *ast.File) (found bool) {
	packages := map[string]string{}
	for _, i := range f.Imports {
		path, _ := strconv.Unquote(i.Path.Value)
		name := path[strings.LastIndex(path, "/")+1:]
		if i.Name != nil {
			name = i.Name.Name
		}
		packages[name] = path
		if strings.HasPrefix(path, "github.com/nats-io/") || path == "github.com/vishvananda/netlink" {
			found = true
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			if !ok || packages[x.Name] == "" {
				break
			}
			switch what := n.Sel.Name; packages[x.Name] {
			case "net", "crypto/tls":
				found = found || strings.HasPrefix(what, "Listen") && what != "Listener" || strings.HasPrefix(what, "Dial") || what == "FileConn" || what == "FilePacketConn"
			case "golang.org/x/sys/unix", "syscall":
				found = found || what == "Socket" || strings.HasPrefix(what, "Recv")
			case "github.com/mdlayher/ndp":
				found = found || what == "Listen"
			case "net/http":
				found = found || what == "Client" || what == "Get" || what == "ListenAndServe" || what == "DefaultClient"
			}
		case *ast.BasicLit:
			found = found || n.Value == `"/dev/net/tun"`
		}
		return true
	})
	return found
}

// mutated are the parsers that have a test with mutated messages, and the test's name.
func mutated(t *testing.T) map[string]string {
	t.Helper()
	tests := map[string]string{}
	base := root(t)
	for _, top := range []string{"internal", "wire", "fib", "cmd"} {
		err := filepath.WalkDir(filepath.Join(base, top), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") || filepath.Base(filepath.Dir(path)) == "mutator" {
				return err
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			for _, d := range f.Decls {
				if one, is := d.(*ast.FuncDecl); is {
					for _, name := range parsersIn(one) {
						tests[name] = one.Name.Name
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return tests
}

// parsersIn returns the names of the mutator.Parser values in a function.
func parsersIn(f *ast.FuncDecl) (names []string) {
	ast.Inspect(f, func(n ast.Node) bool {
		c, is := n.(*ast.CompositeLit)
		if !is {
			return true
		}
		if s, is := c.Type.(*ast.SelectorExpr); !is || s.Sel.Name != "Parser" {
			return true
		}
		for _, e := range c.Elts {
			kv, is := e.(*ast.KeyValueExpr)
			if !is {
				continue
			}
			if key, is := kv.Key.(*ast.Ident); is && key.Name == "Name" {
				if text, is := kv.Value.(*ast.BasicLit); is {
					name, _ := strconv.Unquote(text.Value)
					names = append(names, name)
				}
			}
		}
		return true
	})
	return names
}

// Each parser that the network reaches gets mutated messages in sequences: make test
// feeds it some, make prove ten million.
func TestEveryParserThatTheNetworkReachesIsMutated(t *testing.T) {
	tests := mutated(t)
	listed := outside()
	found := map[string]bool{}
	for _, f := range routerFiles(t) {
		if folder := filepath.Dir(f.path); opens(f.ast) {
			found[folder] = true
			if _, is := openers()[folder]; !is {
				t.Errorf("%s opens a socket or a device: openers() in internal/archtest/parsers_test.go has to name what parses the bytes (mutator.Parser), or why nothing does", f.path)
			}
		}
	}
	for folder, o := range openers() {
		if !found[folder] {
			t.Errorf("%s opens nothing any more", folder)
		}
		if len(o.parsers) == 0 && o.why == "" {
			t.Errorf("%s: what reads what it receives?", folder)
		}
		listed = append(listed, o.parsers...)
	}
	for _, name := range listed {
		if tests[name] == "" {
			t.Errorf("no test attacks the parser %q (mutator.Run)", name)
		}
	}
	for name, test := range tests {
		if !slices.Contains(listed, name) {
			t.Errorf("the parser %q of %s is not in openers() of internal/archtest/parsers_test.go", name, test)
		}
		if !strings.HasPrefix(test, "TestMutated") {
			t.Errorf("%s attacks the parser %q, and make prove runs TestMutated... only", test, name)
		}
	}
	if len(tests) < 20 {
		t.Errorf("%d parsers are attacked: that is not all", len(tests))
	}
}

func TestOpenersAreSeen(t *testing.T) {
	for text, want := range map[string]bool{
		`import "net"; var _ = net.ListenUDP`:                                              true,
		`import "net"; var _ = net.ListenConfig{}`:                                         true,
		`import "net"; var _ net.Listener`:                                                 false,
		`import "net"; var _ = net.InterfaceByName`:                                        false,
		`import other "golang.org/x/sys/unix"; var _ = other.Socket`:                       true,
		`import "golang.org/x/sys/unix"; var _ = unix.Close`:                               false,
		`import "github.com/mdlayher/ndp"; var _ = ndp.ParseMessage`:                       false,
		`import "github.com/nats-io/nats.go"; var _ nats.Conn`:                             true,
		`var _ = "/dev/net/tun"`:                                                           true,
		`import "net/http"; func f() { _, _ = http.Get("https://example.net/blocklist") }`: true,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x; "+text, 0)
		if err != nil {
			t.Fatal(err)
		}
		if opens(f) != want {
			t.Errorf("%s: %v", text, !want)
		}
	}
}
