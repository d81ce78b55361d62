package importer_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weft/internal/config"
	"weft/internal/feature/lns"
	"weft/internal/feature/nat64"
	"weft/internal/importer"
	"weft/internal/state"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// asked is what weft check still wants to know of a result.
var asked = map[string]string{}

func read(name string, text []byte) (string, []state.Problem) {
	o := importer.Options{File: name, LAN: "eth1", WAN: "eth0"}
	if strings.HasPrefix(name, "l2tpns") {
		o.PoolFile = strings.TrimSuffix(name, ".conf") + ".pool"
		o.Pool, _ = os.ReadFile(filepath.Join("testdata", o.PoolFile)) // one has none
		if name == "l2tpns-debian.conf" || strings.HasPrefix(name, "l2tpns-case") {
			o.Listen = "192.0.2.1"
		}
		return importer.L2TPNS(text, o)
	}
	if strings.HasPrefix(name, "tayga") {
		return importer.Tayga(text, o)
	}
	return importer.Jool(text, o)
}

func TestEachFileBecomesAWeftTomlThatIsRight(t *testing.T) {
	files, err := filepath.Glob("testdata/*")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, file := range files {
		base := filepath.Base(file)
		name := strings.TrimSuffix(base, filepath.Ext(base))
		if filepath.Ext(base) == ".toml" || filepath.Ext(base) == ".pool" {
			continue
		}
		count++
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got, problems := read(base, text)
			for _, p := range problems {
				if p.Severity != state.Warning || p.Pos.Line == 0 || p.Remedy == "" {
					t.Errorf("no more than a warning, with its line and a remedy: %s", p)
				}
			}
			golden := filepath.Join("testdata", name+".toml")
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
			check(t, got, asked[name])
		})
	}
	if count < 8 {
		t.Errorf("%d files, want 8 at least", count)
	}
}

// check has weft itself read a result: there is one thing to ask, or nothing.
func check(t *testing.T, toml, asks string) {
	t.Helper()
	sections := append(config.CoreSections(), nat64.Section(), lns.Section())
	if strings.Contains(toml, "mode = \"stateful\"") && !bytes.Contains(config.Schema(sections), []byte("\"stateful\"")) {
		return // weft check does not know this mode yet
	}
	_, problems := config.Load("weft.toml", []byte(toml), sections)
	problems = slices.DeleteFunc(problems, func(p state.Problem) bool { return p.Severity == state.Warning })
	switch {
	case asks == "" && len(problems) > 0, len(problems) > 1:
		t.Errorf("weft check says %v of\n%s", problems, toml)
	case asks != "" && (len(problems) != 1 || !strings.Contains(problems[0].What, asks)):
		t.Errorf("weft check says %v, want %q", problems, asks)
	}
}

func TestTheModeIsSaidOrGuessed(t *testing.T) {
	const (
		joolAlone = `{"global": {"pool6": "2001:db8:64::/96"}}`
		joolMap   = `{"global": {"pool6": "2001:db8:64::/96"}, "eamt": [{"ipv6 prefix": "2001:db8:1::/120", "ipv4 prefix": "192.0.2.0/24"}]}`
		joolPool  = `{"global": {"pool6": "2001:db8:64::/96"}, "pool4": [{"protocol": "TCP", "prefix": "192.0.2.0/28", "port range": "1024-65535"}]}`
		debian    = "tun-device nat64\nprefix 64:ff9b:1::/96\ndynamic-pool 192.168.255.0/24\n"
		servers   = debian + "map 192.168.255.9 2001:db8::9\n"
		clatd     = "tun-device clat\nprefix 64:ff9b::/96\nipv4-addr 192.0.0.2\nmap 192.0.0.1 2001:db8:1::c1a7\n"
	)
	for _, c := range []struct{ program, text, mode, want, says string }{
		{"jool", joolAlone, "", `mode = "stateful"`, "stateful is assumed"},
		{"jool", joolAlone, "stateless", `mode = "stateless"`, ""},
		{"jool", joolAlone, "clat", `mode = "clat"`, ""},
		{"jool", joolMap, "", `mode = "stateless"`, ""},
		{"jool", joolMap, "stateful", `mode = "stateful"`, "has no explicit mappings"},
		{"jool", joolPool, "", `pools = [`, ""},
		{"jool", joolPool, "stateless", `mode = "stateless"`, "shares no addresses"},
		{"tayga", debian, "", `pools = [{ ipv4 = "192.168.255.0/24" }]`, "share the addresses of the pool by ports"},
		{"tayga", servers, "", `mode = "stateless"`, "does not assign IPv4 addresses"},
		{"tayga", servers, "stateful", `pools = [{ ipv4 = "192.168.255.0/24" }]`, "takes no mappings"},
		{"tayga", clatd, "", `mode = "stateless"`, "give weft import --mode clat"},
		{"tayga", clatd, "clat", `mode = "clat"`, ""},
	} {
		o := importer.Options{File: c.program, LAN: "eth1", WAN: "eth0", Mode: c.mode}
		read := map[string]func([]byte, importer.Options) (string, []state.Problem){"jool": importer.Jool, "tayga": importer.Tayga}[c.program]
		got, problems := read([]byte(c.text), o)
		if !strings.Contains(got, c.want) {
			t.Errorf("%s, --mode %q: no %s in\n%s", c.program, c.mode, c.want, got)
		}
		said := slices.ContainsFunc(problems, func(p state.Problem) bool { return c.says != "" && strings.Contains(p.What+p.Remedy, c.says) })
		if said != (c.says != "") || state.HasErrors(problems) {
			t.Errorf("%s, --mode %q: %v, want %q", c.program, c.mode, problems, c.says)
		}
	}
}

func TestTaygasMapFileIsRead(t *testing.T) {
	text := []byte("prefix 64:ff9b::/96\nmap-file styx.map # more\nmap 192.0.2.10 2001:db8:1::10\n")
	if got := importer.TaygaMapFile(text); got != "styx.map" {
		t.Errorf("the map-file is %q", got)
	}
	o := importer.Options{File: "tayga.conf", LAN: "eth1", WAN: "eth0"}
	if _, problems := importer.Tayga(text, o); len(problems) != 1 || !strings.Contains(problems[0].Remedy, "--map-file") {
		t.Errorf("without the file: %v", problems)
	}
	o.Map = []byte("# IPv4 IPv6\n192.0.2.11\t2001:db8:1::11\nmap 192.0.2.16/28 2001:db8:2::/124\n\n")
	got, problems := importer.Tayga(text, o)
	for _, want := range []string{"192.0.2.10", "192.0.2.11", "192.0.2.16/28"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in\n%s", want, got)
		}
	}
	if len(problems) != 0 {
		t.Errorf("problems: %v", problems)
	}
	o.Map = []byte("\n192.0.2.11\n")
	if _, problems := importer.Tayga(text, o); len(problems) != 1 || !strings.HasPrefix(problems[0].String(), "styx.map:2:1: error") {
		t.Errorf("a line of one word: %v", problems)
	}
}

func TestWhatCannotBeReadIsAnErrorWithItsLine(t *testing.T) {
	for _, c := range []struct{ name, text, says string }{
		{"jool", "", "jool:1:1: error: the file is empty"},
		{"jool", "{\n\"global\": {\"pool6\": \"64:ff9b::/96\"},\n\"pool4\": [", "jool:3:1: error: the file ends in the midst of it"},
		{"jool", "\x7fELF\x00\x01", "jool:1:1: error: invalid character"},
		{"tayga", "\x7fELF\x00\x01\nprefix 64:ff9b::/96", "tayga:1:1: error: tayga.conf: is not text"},
		{"tayga", "{ \"global\": {} }", "neither prefix nor map"},
		{"jool", "{\n\"global\": {\n]", "jool:3:1: error: "},
		{"jool", "{}", "is not there, nor is eamt"},
		{"jool", "[1]", "is not a JSON object"},
		{"jool", "{\"global\": {\"pool6\": \"2001:db8::/96\"}} {}", "something behind"},
		{"jool", strings.Repeat("[", 40), "nested deeper"},
		{"jool", "{\n\"global\":\n{\"pool6\": 7}}", "jool:3:1: error: global.pool6: is not a string"},
		{"jool", "{\"global\": {\"pool6\": \"10.0.0.0/8\"}}", "wrong family"},
		{"jool", "{\"eamt\": {}}", "is not an array"},
		{"jool", "{\"eamt\": [\n{\"ipv6 prefix\": \"2001:db8::/120\"}]}", "jool:2:1: error: eamt[0]: needs both"},
		{"jool", "{\"bib\": [{\"protocol\": \"SCTP\", \"ipv6 address\": \"2001:db8::1#80\", \"ipv4 address\": \"192.0.2.1#80\"}]}", "has the protocol \"SCTP\""},
		{"jool", "{\"bib\": [{\"protocol\": \"TCP\", \"ipv6 address\": \"2001:db8::1#99999\", \"ipv4 address\": \"192.0.2.1#80\"}]}", "each with its port"},
		{"jool", "{\"global\": {\"udp-timeout\": \"soon\"}}", "soon is no time"},
		{"tayga", "", "neither prefix nor map"},
		{"tayga", "\nmap 192.0.2.1", "tayga:2:1: error: map: has 1 words"},
		{"tayga", "map 192.0.2.1 192.0.2.2", "wrong family"},
		{"tayga", "prefix nonsense", "neither an address nor a prefix"},
		{"l2tpns", "", "primary_radius: is missing"},
		{"l2tpns", "", "say --listen ADDRESS"},
		{"l2tpns", "\nset l2tp_secret \"a#b\"", "l2tpns:2:1: error: startup-config: has a \" without another one"},
		{"l2tpns", "\n\nset primary_dns", "l2tpns:3:1: error: set: has 1 words behind it"},
		{"l2tpns", "\nset primary_dns 2001:db8::1", "l2tpns:2:1: error: primary_dns: "},
		{"l2tpns", "set bind_multi_address \"192.0.2.1,nonsense\"", "l2tpns:1:1: error: bind_multi_address: \"nonsense\" is no address"},
		{"l2tpns", "\nset primary_radius 192.0.2.1\nset primary_radius_port 99999\n", "l2tpns:3:1: error: primary_radius_port: "},
		{"l2tpns", "\nset primary_radius 192.0.2.1\n", "l2tpns:2:1: error: radius_secret: is missing"},
		{"l2tpns", "set radius_authtypes eap", "\"eap\" is neither pap nor chap"},
		{"l2tpns", "set throttle_speed fast", "is no number"},
		{"tayga", "ipv4-addr 2001:db8::1", "is no IPv4 address"},
	} {
		_, problems := read(c.name, []byte(c.text))
		if !slices.ContainsFunc(problems, func(p state.Problem) bool {
			return p.Severity == state.Error && strings.Contains(p.String(), c.says)
		}) {
			t.Errorf("%s %q: %v, want %q", c.name, c.text, problems, c.says)
		}
	}
}

// Whatever is read, the result is TOML, unless there is an error.
func fuzz(f *testing.F, program, pattern string) {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		f.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		toml, problems := read(program, text)
		if state.HasErrors(problems) {
			return
		}
		_, problems = config.Load("weft.toml", []byte(toml), append(config.CoreSections(), nat64.Section(), lns.Section()))
		for _, p := range problems {
			if p.Path == "" {
				t.Errorf("%s, of\n%s", p, toml)
			}
		}
	})
}

func FuzzJool(f *testing.F) { fuzz(f, "jool", "testdata/jool*.json") }
func FuzzL2TPNS(f *testing.F) {
	fuzz(f, "l2tpns", "testdata/l2tpns*.conf")
}

func TestAPoolThatCannotBeReadIsAnErrorWithItsLine(t *testing.T) {
	text, err := os.ReadFile("testdata/l2tpns-small.conf")
	if err != nil {
		t.Fatal(err)
	}
	for pool, says := range map[string]string{
		"\n203.0.113.0/33":          "ip_pool:2:1: error: ",
		"# one\n\n2001:db8::/64":    "ip_pool:3:1: error: ",
		"0.0.0.0/0":                 "is no pool",
		"no-host:203.0.113.0/24":    `"no-host" is no address`,
		"203.0.113.0/24 # and more": "is no pool",
	} {
		_, problems := importer.L2TPNS(text, importer.Options{File: "startup-config", WAN: "eth0", LNS: importer.LNS{Pool: []byte(pool), PoolFile: "ip_pool"}})
		if !slices.ContainsFunc(problems, func(p state.Problem) bool {
			return p.Severity == state.Error && strings.Contains(p.String(), says)
		}) {
			t.Errorf("%q: %v, want %q", pool, problems, says)
		}
	}
}

// The pool's addresses are there once, whatever the file says.
func FuzzL2TPNSPool(f *testing.F) {
	conf, err := os.ReadFile("testdata/l2tpns-small.conf")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range []string{"testdata/l2tpns-whole.pool", "testdata/l2tpns-debian.pool"} {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, pool []byte) {
		toml, problems := importer.L2TPNS(conf, importer.Options{File: "startup-config", WAN: "eth0", LNS: importer.LNS{Pool: pool, PoolFile: "ip_pool"}})
		if !state.HasErrors(problems) {
			check(t, toml, "")
		}
	})
}

func FuzzTayga(f *testing.F) { fuzz(f, "tayga", "testdata/tayga*.conf") }
