package daemon_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// counting are the lines of sysctl that count, and those of settings that cannot be read.
var counting = regexp.MustCompile(`(?m)^(net\.netfilter\.nf_conntrack_count|sysctl: ).*\n`)

// state returns everything in the router that weft may touch, as text.
func (w *topology) state() string {
	w.t.Helper()
	eventually(w.t, "the cables are up, with addresses of their own", w.cablesAreUp)
	var all strings.Builder
	for _, line := range []string{
		"ip -details link", "ip addr", "ip -4 route show table all", "ip -6 route show table all", "ip rule", "ip neigh show proxy",
		"nft list ruleset", "tc qdisc show",
		"sysctl -a -r ^net\\.",
	} {
		all.WriteString("# " + line + "\n" + counting.ReplaceAllString(w.run(w.router, line), ""))
	}
	return all.String()
}

// cablesAreUp reports whether the router's ends have a carrier and a link-local
// address that is not tentative any more, if they are up and have IPv6: all that
// comes a moment after the other end is up.
func (w *topology) cablesAreUp() bool {
	w.t.Helper()
	addresses := w.run(w.router, "ip -o -6 addr")
	if strings.Contains(addresses, "tentative") {
		return false
	}
	for line := range strings.Lines(w.run(w.router, "ip -br link show type veth")) {
		fields := strings.Fields(line)
		device, _, _ := strings.Cut(fields[0], "@")
		if !slices.Contains([]string{"lan", "wan", "vm"}, device) || fields[1] == "DOWN" {
			continue
		}
		without := strings.TrimSpace(w.run(w.router, "sysctl -n net.ipv6.conf."+device+".disable_ipv6")) == "1"
		if fields[1] != "UP" || !without && !strings.Contains(addresses, device+"    inet6 fe80") {
			return false
		}
	}
	return true
}

// programIDs returns the programs behind pinned links.
func programIDs(t *testing.T, dir string) map[string]ebpf.ProgramID {
	t.Helper()
	ids := map[string]ebpf.ProgramID{}
	for _, name := range pins(t, dir) {
		l, err := link.LoadPinnedLink(filepath.Join(dir, name), nil)
		if err != nil {
			t.Fatal(err)
		}
		info, err := l.Info()
		if err != nil {
			t.Fatal(err)
		}
		ids[name] = info.Program
		l.Close()
	}
	return ids
}

func mapIDs(t *testing.T, dir string) (ids []ebpf.MapID) {
	t.Helper()
	for _, name := range pins(t, dir) {
		m, err := ebpf.LoadPinnedMap(filepath.Join(dir, name), nil)
		if err != nil {
			t.Fatal(err)
		}
		info, err := m.Info()
		if err != nil {
			t.Fatal(err)
		}
		id, _ := info.ID()
		ids = append(ids, id)
		m.Close()
	}
	return ids
}

func TestUnloadLeavesNothing(t *testing.T) {
	t.Parallel()
	onLink := strings.Replace(usual(), "mappings = [", "mappings = [{ ipv6 = \"2001:db8:1:0:64::9\", ipv4 = \"198.51.100.9\", node = \"ipv4\" }, ", 1)
	for name, toml := range map[string]string{"by the stack": usual(), "with neighbours that are answered for": onLink, "by the bypass in XDP": strings.ReplaceAll(bypass(), "bypass = true", "bypass = true\nhook = \"xdp\"\nmtu = 1400")} {
		t.Run(name, func(t *testing.T) {
			w := newTopology(t, toml)
			before := w.state()
			r := w.start()
			w.pings(w.member, serverFrom6)
			here := w.place()
			programs, maps := programIDs(t, filepath.Join(here.Pins, "links")), mapIDs(t, filepath.Join(here.Pins, "maps"))
			if len(programs) < 4 || len(maps) < 5 {
				t.Fatalf("only the programs %v and maps %v are there", programs, maps)
			}
			if during := w.state(); during == before {
				t.Fatal("weft run changes nothing that this test looks at")
			}
			r.stop()
			w.pings(w.member, serverFrom6) // it goes on
			if out, err := w.weft("unload"); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if after := w.state(); after != before {
				t.Errorf("what there is differs:\n%s", differences(before, after))
			}
			for _, dir := range []string{here.Pins, here.Run} {
				if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s is still there (%v)", dir, err)
				}
			}
			for pin, id := range programs {
				eventually(t, pin+" has left the kernel", func() bool { return gone(ebpf.NewProgramFromID(id)) })
			}
			for _, id := range maps {
				eventually(t, "the maps have left the kernel", func() bool { return gone(ebpf.NewMapFromID(id)) })
			}
			if out, err := w.weft("unload"); err != nil {
				t.Errorf("unloading what is not there: %v\n%s", err, out)
			}
		})
	}
}

// gone reports whether the kernel knows no such object any more.
func gone(o interface{ Close() error }, err error) bool {
	if err == nil {
		o.Close()
	}
	return errors.Is(err, fs.ErrNotExist)
}

// differences returns the lines that only one of two texts has.
func differences(before, after string) string {
	var b strings.Builder
	for sign, pair := range map[string][2]string{"-": {before, after}, "+": {after, before}} {
		for line := range strings.Lines(pair[0]) {
			if strings.Count("\n"+pair[1], "\n"+line) < strings.Count("\n"+pair[0], "\n"+line) {
				b.WriteString(sign + line)
			}
		}
	}
	return b.String()
}

func TestUnloadAfterACrashPutsBackWhatWasBefore(t *testing.T) {
	t.Parallel()
	w := newTopology(t, usual())
	w.run(w.router, "ip addr add 198.51.100.1/24 dev wan") // another program's, and wanted too
	before := w.state()
	w.start().kill()
	if out, err := w.weft("unload"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if after := w.state(); after != before {
		t.Errorf("what there is differs:\n%s", differences(before, after))
	}
}

func TestADeviceThatIsRemovedUnderTheDaemonIsTakenUpAgain(t *testing.T) {
	t.Parallel()
	w := newTopology(t, usual())
	r := w.start()
	w.pings(w.member, serverFrom6)
	w.run(w.router, "ip link del nat64-main")
	eventually(t, "the translator's device is made again", func() bool { return w.reaches(w.member, serverFrom6) })
	w.comesToRest()
	w.fragmentsPass()
	w.run(w.router, "ip link del lan")
	eventually(t, "it says that the device is gone", func() bool { return strings.Contains(r.log.String(), `no device "lan"`) })
	w.cable("lan", w.member)
	w.run(w.member, "ip addr add 2001:db8:1::2/64 dev eth0 nodad")
	w.run(w.member, "ip route add default via 2001:db8:1::1")
	eventually(t, "traffic flows by the device that came back", func() bool { return w.reaches(w.member, serverFrom6) })
	w.pings(w.server, memberFrom4)
	w.comesToRest()
	if n := len(pins(t, filepath.Join(w.place().Pins, "links"))); n != 4 {
		t.Errorf("%d programs are pinned, want 4: %v", n, pins(t, filepath.Join(w.place().Pins, "links")))
	}
}
