package openwrt_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weft/internal/config"
	"weft/internal/features"
	"weft/internal/importer/openwrt"
	"weft/internal/importer/uci"
	"weft/internal/state"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// routers are the directories of testdata.
func routers(t testing.TB) (dirs []string) {
	t.Helper()
	entries, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && e.Name() != "fuzz" {
			dirs = append(dirs, filepath.Join("testdata", e.Name()))
		}
	}
	if len(dirs) < 12 {
		t.Fatalf("%d routers, want 12 at least", len(dirs))
	}
	return dirs
}

// sources reads the files of one router.
func sources(t testing.TB, dir string) ([]openwrt.Source, openwrt.Options) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []openwrt.Source
	o := openwrt.Options{Jool: map[string]openwrt.Source{}}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		s := openwrt.Source{File: e.Name(), Package: e.Name(), Text: text}
		if name, is := strings.CutSuffix(e.Name(), ".conf.json"); is {
			o.Jool[strings.TrimPrefix(name, "jool-")] = s
			continue
		}
		list = append(list, s)
	}
	return list, o
}

// right fails the test if weft check would refuse a result.
func right(t *testing.T, toml string) {
	t.Helper()
	_, problems := config.Load("weft.toml", []byte(toml), features.Sections())
	for _, p := range problems {
		if p.Severity == state.Error {
			t.Errorf("%s\nof\n%s", p, toml)
		}
	}
}

// covered fails the test unless each line of UCI has one verdict, with a reason, and a
// remedy unless it is yes.
func covered(t *testing.T, list []openwrt.Source, lines []openwrt.Line) {
	t.Helper()
	verdicts := map[string]int{}
	for _, l := range lines {
		verdicts[l.File] += l.Count
		if l.What == "" || l.Verdict == 0 || (l.Remedy == "") != (l.Verdict == openwrt.Yes) || l.First < 1 || l.Last < l.First {
			t.Errorf("the verdict %q", l)
		}
	}
	for _, s := range list {
		files, err := uci.Parse(s.Package, s.Text)
		if err != nil {
			t.Fatal(err)
		}
		want := 0
		for _, f := range files {
			want += len(f.Lines)
		}
		if verdicts[s.File] != want {
			t.Errorf("%s: %d lines have verdicts, want %d", s.File, verdicts[s.File], want)
		}
	}
}

func TestEachRouterBecomesAWeftTomlThatIsRightAndEachLineHasAVerdict(t *testing.T) {
	for _, dir := range routers(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			list, o := sources(t, dir)
			result := openwrt.Import(list, o)
			if len(result.Problems) > 0 {
				t.Fatal(result.Problems)
			}
			var said strings.Builder
			for _, l := range result.Lines {
				fmt.Fprintln(&said, l)
			}
			for ending, got := range map[string]string{".toml": result.TOML, ".lines": said.String()} {
				golden := dir + ending
				if *update {
					if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(golden)
				if err != nil {
					t.Fatal(err)
				}
				if got != string(want) {
					t.Errorf("gives\n%s\nwant, by %s,\n%s", got, golden, want)
				}
			}
			right(t, result.TOML)
			covered(t, list, result.Lines)
			if strings.Contains(said.String(), "MARKER") {
				t.Error("a secret is in the verdicts")
			}
			for line := range strings.Lines(result.TOML) {
				if strings.Contains(line, "MARKER") && !strings.HasPrefix(line, "password = ") && !strings.HasPrefix(line, "login = ") {
					t.Errorf("a secret is in the result, and does nothing there: %s", line)
				}
			}
		})
	}
}

// one imports the text of packages, each by its name.
func one(packages map[string]string) openwrt.Result {
	var list []openwrt.Source
	for name, text := range packages {
		list = append(list, openwrt.Source{File: name, Package: name, Text: []byte(text)})
	}
	return openwrt.Import(list, openwrt.Options{})
}

func TestADamagedFileIsOneErrorWithItsLine(t *testing.T) {
	for _, c := range []struct{ network, dhcp, says string }{
		{"config interface 'lan'\n\toption proto 'static\n", "", "network:2:1: error: a value begins with ' and does not end"},
		{"config interface 'guest-lan'\n", "", `network:1:1: error: "guest-lan" is not a name of a section`},
		{"\x7fELF\x01\x00", "", "network:1:1: error: has a zero byte"},
		{"<html>\n", "", `network:1:1: error: "<html>" begins no line of UCI`},
		{"config interface 'lan'\n", "config dhcp lan\noption start 100 200\n", `dhcp:2:1: error: "200" is one word too many`},
	} {
		result := one(map[string]string{"network": c.network, "dhcp": c.dhcp})
		if len(result.Problems) != 1 || !strings.HasPrefix(result.Problems[0].String(), c.says) || result.TOML != "" {
			t.Errorf("%q: %v, want %q", c.network, result.Problems, c.says)
		}
	}
	if result := one(map[string]string{"dhcp": ""}); len(result.Problems) != 1 || !strings.Contains(result.Problems[0].What, "no package network") {
		t.Errorf("without network: %v", result.Problems)
	}
	if result := one(nil); len(result.Problems) != 1 {
		t.Errorf("without files: %v", result.Problems)
	}
}

// What files have wrong without being damaged is left out with a reason, and the result is
// right all the same.
func TestWhatIsWrongInAFileIsLeftOut(t *testing.T) {
	const lan = "config interface 'lan'\noption device 'eth0'\noption proto 'static'\noption ipaddr '192.168.1.1/24'\n"
	for _, c := range []struct{ network, dhcp, line, says string }{
		{lan + "config interface 'b'\noption device 'eth1'\noption proto 'static'\noption ipaddr '192.168.1.77/25'\n", "", "network:8", "overlaps an address of [interface.lan]"},
		{lan + "config interface 'b'\noption device 'eth1'\noption proto 'static'\noption ipaddr '192.168.0.1/16'\n", "", "network:8", "overlaps an address of [interface.lan]"},
		{lan + "list ipaddr '192.168.1.1/24'\n", "", "network:4-5", "overlaps an address of [interface.lan]"},
		{"config interface 'lan'\noption device 'eth0'\noption proto 'static'\noption ipaddr '192.168.1.0/24'\n", "", "network:4", "is the subnet, not an address in it"},
		{"config interface 'lan'\noption device 'eth0'\noption proto 'static'\noption ipaddr '192.168.1.300'\n", "", "network:4", "is no address"},
		{"config interface 'lan'\noption device 'eth0'\noption proto 'static'\noption ipaddr '10.0.0.1'\noption netmask '255.0.255.0'\n", "", "network:5", "is no netmask"},
		{"config interface 'lan'\noption device 'a name with spaces'\noption proto 'static'\noption mtu '40'\n", "", "network:4", "is no MTU"},
		{"config interface 'lan'\noption device 'eth0'\noption proto 'static'\noption ip6addr '2001:db8::1/64'\noption mtu '600'\n", "", "network:5", "too small for IPv6"},
		{lan + "config device\noption type 'bridge'\nlist ports 'eth9'\n", "", "network:5-7", "is no name of a device"},
		{lan + "config device\noption name 'br0'\noption type 'bridge'\nlist ports 'eth0'\n", "", "network:4", "eth0 is a port of a bridge"},
		{lan + "config bridge-vlan\noption device 'br0'\noption vlan '5'\n", "", "network:5-7", "there is no bridge"},
		{lan + "config device\noption name 'br0'\noption type 'bridge'\nconfig bridge-vlan\noption device 'br0'\noption vlan '4095'\n", "", "network:8-10", "is no VLAN"},
		{lan + "option ip6assign '99'\n", "", "network:5", "is no length of a prefix"},
		{"config globals\noption ula_prefix 'fd00::/64'\n" + lan + "option ip6assign '64'\nconfig interface 'b'\noption device 'eth1'\noption proto 'static'\noption ip6assign '64'\n", "", "network:11", "has no room for it"},
		{lan + "config interface 'x'\noption proto 'vxlan'\noption ipaddr '192.0.2.1'\noption peeraddr '192.0.2.2'\noption vid '99999999'\n", "", "network:9", "is no number from 0 to 16777215"},
		{lan + "config interface 'x'\noption proto 'gretap'\noption ipaddr '192.0.2.1'\noption peeraddr '192.0.2.1'\n", "", "network:5", "look like those for"},
		{lan + "config interface 'x'\noption proto 'gretap'\noption peeraddr '192.0.2.2'\n", "", "network:5-7", "own address of the tunnel is not in the file"},
		{lan + "config interface 'x'\noption proto 'nonsense'\n", "", "network:5-6", "does not know the protocol nonsense"},
		{lan + "config interface 'x'\noption proto 'l2tp'\n", "", "network:5-6", "has no server"},
		{lan + "config thing\noption a b\n", "", "network:5-6", "does not know this kind of section"},
		{lan, "config dhcp 'wan'\noption ra 'server'\n", "dhcp:1-2", "interface wan is not in weft.toml"},
		{lan, "config dhcp 'lan'\noption ra 'server'\noption ra_lifetime '99999'\n", "dhcp:3", "is no time from 600 to 9000 seconds"},
		{lan, "config dhcp 'lan'\noption ra 'server'\noption ra_pref64 '64:ff9b::/95'\n", "dhcp:3", "is no prefix of a translator"},
		{lan, "config dhcp 'lan'\noption ra 'server'\noption ra_mtu '99'\n", "dhcp:3", "is no number from 1280"},
		{lan, "config dhcp 'lan'\noption ra 'server'\nlist dns 'fe80::1%eth0'\n", "dhcp:3", "is no name server's address"},
		{lan, "config dhcp 'lan'\noption ra 'server'\nconfig dhcp 'again'\noption interface 'lan'\noption ra 'server'\n", "dhcp:3", "[ra.lan] is there already"},
		{lan + "config interface 'c'\noption proto '464xlat'\noption ip6prefix '2001:db8::/60'\n", "", "network:7", "is no prefix that IPv4 addresses stand under"},
		{lan + "config interface 't'\noption proto 'tayga'\noption ipv4_addr '192.0.2.1'\noption prefix 'nonsense'\n", "", "network:5-8", "neither an address nor a prefix"},
	} {
		result := one(map[string]string{"network": c.network, "dhcp": c.dhcp})
		right(t, result.TOML)
		if !slices.ContainsFunc(result.Lines, func(l openwrt.Line) bool {
			return strings.HasPrefix(l.String(), c.line+": no: ") && strings.Contains(l.What, c.says)
		}) {
			var all strings.Builder
			for _, l := range result.Lines {
				fmt.Fprintln(&all, l)
			}
			t.Errorf("%s%s: want %s, %q; says\n%s", c.network, c.dhcp, c.line, c.says, all.String())
		}
	}
}

// What OpenWrt has in two forms gives the same.
func TestOlderAndNewerFormsAreTheSame(t *testing.T) {
	toml := func(network string) string {
		result := one(map[string]string{"network": network})
		at := strings.Index(result.TOML, "\n[")
		if len(result.Problems) > 0 || at < 0 {
			t.Fatalf("%v %s", result.Problems, result.TOML)
		}
		return result.TOML[at:]
	}
	for _, c := range []struct{ older, newer string }{
		{"config interface lan\noption type bridge\noption ifname 'eth0 eth1'\noption proto static\noption ipaddr 10.0.0.1\noption netmask 255.255.255.0\n",
			"config device\noption name br-lan\noption type bridge\nlist ports eth0\nlist ports eth1\nconfig interface lan\noption device br-lan\noption proto static\nlist ipaddr 10.0.0.1/24\n"},
		{"package network\nconfig interface 'lan'\noption ifname 'eth0'\noption proto 'dhcp'\n", "config interface lan\noption device eth0\noption proto dhcp\n"},
		{"config interface a\noption ifname eth0\noption proto static\noption ipaddr 10.0.0.1/255.255.255.0\n", "config interface a\noption device eth0\noption proto static\noption ipaddr 10.0.0.1/24\n"},
	} {
		if older, newer := toml(c.older), toml(c.newer); older != newer {
			t.Errorf("%s\ngives\n%s\nand\n%s\ngives\n%s", c.older, older, c.newer, newer)
		}
	}
}

func TestDevicesGetTheNamesOfTheNewMachine(t *testing.T) {
	result := openwrt.Import([]openwrt.Source{{File: "network", Package: "network", Text: []byte(
		"config device\noption name br0\noption type bridge\nlist ports eth0.7\nconfig interface wan\noption device eth1\noption proto dhcp\n")}},
		openwrt.Options{Devices: map[string]string{"eth0": "enp1s0", "eth1": "enp2s0"}})
	for _, want := range []string{`interface = "enp1s0.7"`, `device = "enp2s0"`, "link enp1s0 name enp1s0.7"} {
		if !strings.Contains(result.TOML, want) {
			t.Errorf("no %s in\n%s", want, result.TOML)
		}
	}
}

// fuzzed are the routers of testdata, each as what uci export prints.
func fuzzed(f *testing.F) {
	for _, dir := range routers(f) {
		var all strings.Builder
		list, _ := sources(f, dir)
		for _, s := range list {
			fmt.Fprintf(&all, "package %s\n%s\n", s.Package, s.Text)
		}
		f.Add([]byte(all.String()))
	}
}

// Whatever is read, the result is right, and each line has a verdict.
func FuzzImport(f *testing.F) {
	fuzzed(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		s := []openwrt.Source{{File: "network", Package: "network", Text: text}}
		result := openwrt.Import(s, openwrt.Options{})
		if len(result.Problems) > 0 {
			return
		}
		right(t, result.TOML)
		covered(t, s, result.Lines)
	})
}
