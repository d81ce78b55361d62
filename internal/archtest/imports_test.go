// Package archtest holds the house to its own rules: who may look into whom
// ("Who may import whom" in docs/architecture.md).
package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// room is a folder of packages and what those may import of weft, besides
// packages of the same room. A name stands for everything below it too.
type room struct {
	name string
	may  []string
}

// rooms lists every room; the first that fits a package counts. In a room
// whose name ends in /* every folder is a room of its own. A name that
// ends in $ is that package alone, without those below it.
func rooms() []room {
	leaves := []string{"fib", "schedule", "wire", "internal/state", "internal/translate", "internal/noun", "internal/task", "internal/limit", "internal/fault"}
	engines := []string{"internal/timer", "internal/ppp", "internal/l2tp", "internal/dhcp4client", "internal/dhcp4server", "internal/dhcp6client", "internal/addresspool", "internal/subscriber", "internal/allocationlog"}
	doorRooms := slices.Concat(leaves, engines, []string{
		"internal/kernel", "internal/datapath", "internal/slowpath", "internal/dnsio", "internal/ndpio", "internal/dhcp6io", "internal/pingio", "internal/packetio", "internal/arpio", "internal/dhcp4io", "internal/dhcp4run",
		"internal/store", "internal/ethtool", "internal/bus$",
		"internal/syslog", "internal/paths", "internal/l2tpio", "internal/aaa",
	})
	below := append([]string{"internal/config", "internal/feature", "internal/reconcile", "internal/plan", "internal/importer", "internal/version"}, doorRooms...)
	beside := append([]string{"internal/api", "internal/trace", "internal/simulate", "internal/lab", "internal/bench", "internal/web", "internal/svg"}, below...)
	return []room{
		{"fib", nil},
		{"schedule", nil},
		{"wire/sessionsync", []string{"internal/state"}},
		{"wire/ipv4", []string{"wire/checksum"}},
		{"wire/ipv6", []string{"wire/checksum"}},
		{"wire/oversize", []string{"wire/checksum", "wire/ipv6"}},
		{"wire/*", nil},
		{"internal/state", nil},
		{"internal/version", nil},
		{"internal/limit", nil},
		{"internal/noun", nil},
		{"internal/task", nil},
		{"internal/fault", nil},
		{"internal/paths", []string{"internal/fault"}},
		{"internal/translate", []string{"internal/state", "wire/checksum"}},
		{"internal/timer", nil},
		{"internal/ppp", []string{"internal/timer", "wire/ppp"}},
		{"internal/l2tp", []string{"internal/limit", "internal/timer", "wire/l2tp"}},
		{"internal/dhcp4client", []string{"internal/timer", "wire/dhcp4"}},
		{"internal/dhcp4server", []string{"internal/limit", "internal/timer", "wire/dhcp4"}},
		{"internal/dhcp6client", []string{"internal/timer", "wire/dhcp6", "wire/ipv6"}},
		{"internal/addresspool", nil},
		{"internal/allocationlog", []string{"internal/state"}},
		{"internal/subscriber", []string{
			"internal/addresspool", "internal/dhcp6client", "internal/l2tp", "internal/limit", "internal/ppp", "internal/state", "internal/timer", "wire",
		}},
		{"internal/config/configtest", []string{"internal/config", "internal/plan", "internal/state"}},
		{"internal/config", leaves},
		{"internal/importer", []string{"internal/state"}},
		{"internal/feature$", append([]string{"internal/config"}, leaves...)},
		{runs, append([]string{"internal/config", "internal/feature$", "internal/plan", "internal/runner"}, doorRooms...)},
		{"internal/feature/*", slices.Concat([]string{"internal/config", "internal/feature$"}, leaves, engines)},
		{"internal/reconcile", []string{"internal/fault", "internal/state"}},
		{"internal/plan", []string{"internal/state"}},
		{"internal/ethtool", nil},
		{"internal/kernel/nlconn", nil},
		{"internal/kernel/mark", nil},
		{"internal/kernel/manager", nil},
		{"internal/kernel/driver", []string{"internal/state", "internal/kernel/nlconn"}},
		{"internal/kernel/rtnetlink", []string{"internal/state", "internal/kernel/nlconn", "internal/kernel/mark", "internal/kernel/driver"}},
		{"internal/kernel/netfilter", []string{"internal/state", "internal/task", "internal/kernel/nlconn", "internal/kernel/rtnetlink"}},
		{"internal/kernel", []string{"internal/state", "internal/task", "internal/ethtool", "internal/fault", "internal/store/statefile"}},
		{"internal/datapath$", []string{"internal/fault", "internal/state", "internal/task"}},
		{"internal/datapath/alltables", []string{"internal/datapath"}},
		{"internal/datapath/datapathtest", append([]string{"internal/config", "internal/feature/nat64", "internal/plan", "internal/lab/netspace", "internal/datapath$", "internal/datapath/fibtable"}, leaves...)},
		{"internal/datapath/*", []string{"internal/datapath$", "internal/state", "internal/task", "fib"}},
		{"internal/slowpath", []string{"internal/state", "internal/task"}},
		{"internal/dnsio", []string{"internal/task"}},
		{"internal/ndpio", nil},
		{"internal/pingio", nil},
		{"internal/dhcp6io", nil},
		{"internal/packetio", nil},
		{"internal/arpio", []string{"internal/packetio", "wire/arp"}},
		{"internal/dhcp4io", []string{"internal/packetio", "wire/dhcp4", "wire/ipv4"}},
		{"internal/dhcp4run", []string{"internal/arpio", "internal/dhcp4client", "internal/dhcp4io", "internal/dhcp4server", "internal/store", "internal/task", "wire/arp"}},
		{"internal/store", []string{"internal/fault"}},
		{"internal/trial", []string{"internal/paths", "internal/state", "internal/store/statefile"}},
		{"internal/l2tpio", nil},
		{"internal/aaa", []string{"internal/task"}},
		{"internal/syslog", []string{"internal/task"}},
		{"internal/helper", []string{"internal/task", "internal/version"}},
		{"internal/bus$", []string{"internal/helper"}},
		{"internal/bus", []string{"internal/task", "internal/helper", "internal/bus"}},
		{"internal/api", []string{"internal/noun", "internal/task", "internal/feature/lns", "internal/subscriber"}},
		{"internal/trace", []string{"internal/state", "internal/ethtool", "internal/config", "internal/datapath", "internal/lab/netspace", "wire"}},
		{"internal/web", nil},
		{"internal/svg", nil},
		{"internal/simulate", beside},
		{"internal/lab", beside},
		{"internal/bench", beside},
		{"internal/archtest", nil},
		{"internal/testbin", nil},
		{"internal/mutator", nil},
		{"internal/runner", append([]string{"internal/config"}, doorRooms...)},
		{"internal/features", append([]string{"internal/runner"}, below...)},
		{"internal/daemon", append([]string{"internal/features", "internal/runner", "internal/trial"}, beside...)},
		{"internal/instance", append([]string{"internal/features", "internal/runner", "internal/daemon"}, beside...)},
		{"cmd/weft-bus", []string{"internal/bus", "internal/version"}},
		{"cmd", append([]string{"internal/features", "internal/runner", "internal/daemon", "internal/instance"}, beside...)},
		{"tools", append([]string{"internal/features", "internal/daemon"}, beside...)},
	}
}

// doors lists the packages that may import a library for an outside system; no other
// package touches that system.
func doors() map[string][]string {
	return map[string][]string{
		"github.com/cilium/ebpf":         {"internal/datapath", "internal/bench", "internal/lab", "internal/trace"},
		"github.com/vishvananda/netlink": {"internal/kernel", "internal/lab", "internal/bench", "internal/trace", "internal/datapath/datapathtest"},
		"github.com/miekg/dns":           {"internal/dnsio", "internal/feature/dns64", "internal/lab"},
		"go.etcd.io/bbolt":               {"internal/store"},
		"layeh.com/radius":               {"internal/aaa", "wire/ppp"},
		"github.com/nats-io/nats-server": {"internal/bus/natsbus"},
		"github.com/nats-io/nats.go":     {"internal/bus/natsbus"},
		"github.com/nats-io/nkeys":       {"internal/bus"},
		"github.com/google/nftables":     {"internal/kernel", "internal/lab", "internal/bench"},
		"github.com/chromedp":            {"internal/web/browser/drive", "tools"},
	}
}

// effects are what the pure rooms do without.
func effects() []string {
	return []string{"os", "os/exec", "net", "syscall", "golang.org/x/sys/unix", "math/rand", "math/rand/v2", "crypto/rand"}
}

func pure() []string {
	return []string{"wire", "internal/state", "internal/noun", "internal/config", "internal/importer", "internal/feature", "internal/timer", "internal/ppp", "internal/l2tp", "internal/dhcp4client", "internal/dhcp4server", "internal/dhcp6client", "internal/addresspool", "internal/subscriber", "internal/allocationlog", "internal/plan", "internal/reconcile"}
}

// forTests are packages that only tests and tools may import.
func forTests() []string {
	return []string{"internal/config/configtest", "internal/translate/packetgen", "wire/checksum/checksumtest", "internal/lab/netspace/spacetest", "internal/datapath/datapathtest", "internal/bus/bustest", "internal/timer/timertest", "internal/bench/benchtest", "internal/testbin", "internal/mutator", "internal/web/browser/drive"}
}

// tables returns which features a package of typed tables is for: their running halves
// import it, and those of others do not.
func tables() map[string][]string {
	return map[string][]string{
		"ingresstable": {"host"}, "nat64table": {"nat64", "sessionsync", "host"}, "fibtable": {"route"}, "flowtable": {"offload"},
		"subscribertable": {"lns"}, "pseudowiretable": {"pseudowire"}, "guardtable": {"guard"}, "bridgetable": {"bridge"},
	}
}

// foreignTable reports whether a package imports typed tables that are not for it.
func foreignTable(path, i string) bool {
	table, is := strings.CutPrefix(i, "internal/datapath/")
	if !is {
		return false
	}
	if running(path) {
		name, _, _ := strings.Cut(strings.TrimPrefix(path, "internal/feature/"), "/")
		return table != name+"table" && !slices.Contains(tables()[table], name)
	}
	return inside(path, "internal/daemon") && table != "alltables" && table != "ability" // what the process may do is no table
}

type pkg struct {
	ImportPath string
	Imports    []string
	Dir        string
}

const module = "weft/"

// packages lists every package of the module, tests left out.
func packages(t *testing.T) []pkg {
	t.Helper()
	c := exec.Command("go", "list", "-json=ImportPath,Imports,Dir", module+"...")
	var errs bytes.Buffer
	c.Stderr = &errs
	out, err := c.Output()
	if err != nil {
		t.Fatalf("list packages: %v\n%s", err, &errs)
	}
	var all []pkg
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		// so that a change there makes go test forget this test's result
		if _, err := os.ReadDir(p.Dir); err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// inside reports whether a package, named without the module, is in a folder.
func inside(path, folder string) bool {
	if only, alone := strings.CutSuffix(folder, "$"); alone {
		return path == only
	}
	return path == folder || strings.HasPrefix(path, folder+"/")
}

// runs is the room of the halves of features that touch the system: internal/feature/NAME/NAMErun.
const runs = "internal/feature/*run"

func running(path string) bool {
	name, below, _ := strings.Cut(strings.TrimPrefix(path, "internal/feature/"), "/")
	return inside(path, "internal/feature") && inside(below, name+"run")
}

// roomOf returns the room that a package is in, and the folder that is its own.
func roomOf(path string) (r room, own string, ok bool) {
	for _, r := range rooms() {
		if r.name == runs {
			if running(path) {
				name, _, _ := strings.Cut(strings.TrimPrefix(path, "internal/feature/"), "/")
				return r, "internal/feature/" + name, true
			}
			continue
		}
		parent, each := strings.CutSuffix(r.name, "/*")
		if !inside(path, parent) {
			continue
		}
		if each {
			name, _, _ := strings.Cut(strings.TrimPrefix(path, parent+"/"), "/")
			return r, parent + "/" + name, true
		}
		return r, parent, true // with its $: those below it are not its own
	}
	return room{}, "", false
}

func TestNobodyImportsWhatIsNotTheirs(t *testing.T) {
	all := packages(t)
	if len(all) < 15 {
		t.Fatalf("go list gave %d packages: that is not all of weft", len(all))
	}
	for _, p := range all {
		for _, fault := range faults(p) {
			t.Errorf("%s %s (internal/archtest/imports_test.go, docs/architecture.md)", p.ImportPath, fault)
		}
	}
}

// faults lists what a package imports and may not.
func faults(p pkg) []string {
	path := strings.TrimPrefix(p.ImportPath, module)
	r, own, ok := roomOf(path)
	if !ok {
		return []string{"is in no room"}
	}
	var list []string
	for _, i := range p.Imports {
		for library, who := range doors() {
			if inside(i, library) && !slices.ContainsFunc(who, func(w string) bool { return inside(path, w) }) {
				list = append(list, "imports "+i+", which is only for "+strings.Join(who, ", "))
			}
		}
		if slices.Contains(effects(), i) && slices.ContainsFunc(pure(), func(w string) bool { return inside(path, w) }) && !inside(path, "internal/config/configtest") && !running(path) {
			list = append(list, "imports "+i+", and is to be pure")
		}
		i, ours := strings.CutPrefix(i, module)
		if !ours || inside(i, own) && !slices.Contains(forTests(), i) && (!running(i) || running(path)) {
			continue
		}
		if slices.Contains(forTests(), i) && slices.Contains(forTests(), path) {
			continue
		}
		if slices.Contains(forTests(), i) && !inside(path, "tools") {
			list = append(list, "imports "+i+", which is for tests")
		} else if foreignTable(path, i) {
			list = append(list, "imports "+i+", which is another feature's")
		} else if !slices.ContainsFunc(r.may, func(m string) bool { return inside(i, m) }) {
			list = append(list, "imports "+i+", which is no business of its room's")
		}
	}
	return list
}

func TestTheRulesNoticeWhoBreaksThem(t *testing.T) {
	for _, c := range []struct{ from, imports, want string }{
		{"internal/feature/nat64", "weft/internal/feature/host", "no business"},
		{"internal/feature/nat64", "weft/internal/kernel", "no business"},
		{"internal/feature/nat64", "weft/internal/config", ""},
		{"internal/feature/guard", "weft/internal/feature/guard/guardrun", "no business"},
		{"internal/feature/guard", "weft/internal/noun", ""},
		{"internal/feature/guard/guardrun", "weft/internal/feature/guard", ""},
		{"internal/feature/guard/guardrun", "weft/internal/datapath", ""},
		{"internal/feature/guard/guardrun", "os", ""},
		{"internal/feature/guard/guardrun", "weft/internal/api", "no business"},
		{"internal/noun", "weft/internal/state", "no business"},
		{"internal/feature/nat64", "weft/internal/feature", ""},
		{"internal/feature/nat64", "weft/internal/feature/nat64/nat64run", "no business"},
		{"internal/feature/nat64/nat64run", "weft/internal/feature/nat64", ""},
		{"internal/feature/nat64/nat64run", "weft/internal/kernel", ""},
		{"internal/feature/nat64/nat64run", "os", ""},
		{"internal/feature/nat64/nat64run", "weft/internal/feature/ra", "no business"},
		{"internal/feature/nat64/nat64run", "weft/internal/daemon", "no business"},
		{"internal/feature/nat64", "os", "pure"},
		{"internal/kernel", "weft/internal/config", "no business"},
		{"internal/kernel", "weft/internal/feature/host", "no business"},
		{"internal/datapath", "weft/internal/config", "no business"},
		{"internal/datapath", "weft/internal/reconcile", "no business"},
		{"internal/datapath", "weft/internal/datapath/guardtable", "no business"},
		{"internal/datapath/guardtable", "weft/internal/datapath", ""},
		{"internal/datapath/guardtable", "weft/internal/datapath/fibtable", "no business"},
		{"internal/datapath/guardtable", "weft/internal/config", "no business"},
		{"internal/datapath/alltables", "weft/internal/datapath/guardtable", ""},
		{"internal/feature/guard/guardrun", "weft/internal/datapath/guardtable", ""},
		{"internal/feature/guard/guardrun", "weft/internal/datapath/fibtable", "another feature's"},
		{"internal/feature/guard/guardrun", "weft/internal/datapath/datapathtest", "for tests"},
		{"internal/daemon", "weft/internal/datapath/alltables", ""},
		{"internal/daemon", "weft/internal/datapath/ability", ""},
		{"internal/daemon", "weft/internal/datapath/nat64table", "another feature's"},
		{"internal/reconcile", "weft/internal/kernel", "no business"},
		{"internal/plan", "weft/internal/feature/host", "no business"},
		{"internal/plan", "weft/internal/config", "no business"},
		{"internal/state", "weft/internal/config", "no business"},
		{"internal/api", "weft/internal/daemon", "no business"},
		{"internal/aaa", "weft/internal/feature/lns", "no business"},
		{"internal/ppp", "weft/internal/subscriber", "no business"},
		{"internal/aaa", "weft/internal/subscriber", "no business"},
		{"internal/subscriber", "weft/internal/config", "no business"},
		{"internal/subscriber", "weft/internal/feature/lns", "no business"},
		{"internal/subscriber", "weft/internal/feature/ra", "no business"},
		{"internal/subscriber", "weft/internal/l2tp", ""},
		{"internal/subscriber", "crypto/rand", "to be pure"},
		{"internal/subscriber", "weft/internal/addresspool", ""},
		{"internal/addresspool", "weft/internal/subscriber", "no business"},
		{"internal/allocationlog", "os", "to be pure"},
		{"internal/allocationlog", "weft/internal/feature/nat64", "no business"},
		{"internal/feature/lns", "weft/internal/subscriber", ""},
		{"internal/feature/lns/lnsrun", "weft/internal/subscriber", ""},
		{"internal/ppp", "weft/wire/l2tp", "no business"},
		{"internal/l2tp", "weft/internal/ppp", "no business"},
		{"internal/l2tp", "weft/internal/subscriber", "no business"},
		{"internal/dhcp6client", "net", "pure"},
		{"internal/dhcp4server", "weft/internal/dhcp4client", "no business"},
		{"internal/lab", "weft/internal/daemon", "no business"},
		{"internal/feature/sessionsync/sessionsyncrun", "weft/internal/bus", ""},
		{"internal/feature/sessionsync/sessionsyncrun", "weft/internal/bus/natsbus", "no business"},
		{"cmd/weft", "weft/internal/bus/natsbus", "no business"},
		{"cmd/weft-bus", "weft/internal/bus/natsbus", ""},
		{"cmd/weft-bus", "weft/internal/kernel", "no business"},
		{"internal/daemon", "weft/cmd/weft", "no business"},
		{"wire/ppp", "weft/wire/l2tp", "no business"},
		{"internal/daemon", "weft/internal/kernel", ""},
		{"internal/lab/guest", "weft/internal/lab/netspace", ""},
		{"internal/daemon", "github.com/vishvananda/netlink/nl", "only for"},
		{"internal/daemon", "github.com/cilium/ebpf", "only for"},
		{"internal/config", "os", "pure"},
		{"internal/trace", "weft/internal/translate/packetgen", "for tests"},
		{"internal/bench/sim", "weft/internal/web/browser/drive", "for tests"},
		{"internal/simulate/watch", "github.com/chromedp/chromedp", "only for"},
		{"internal/web", "weft/internal/simulate/watch", "no business"},
		{"tools/pictures", "weft/internal/web/browser/drive", ""},
		{"pkg/util", "fmt", "no room"},
	} {
		got := strings.Join(faults(pkg{ImportPath: module + c.from, Imports: []string{c.imports}}), "; ")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s importing %s: %q, want %q", c.from, c.imports, got, c.want)
		}
	}
}

// root is the folder of the module.
func root(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(strings.TrimSpace(string(out)))
}
