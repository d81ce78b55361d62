package lab

import (
	"errors"
	"strings"
	"testing"

	"weft/internal/state"
)

const good = `title = "t"
[[node]]
name = "a"
[[node]]
name = "b"
[[link]]
ends = [{ node = "a", device = "eth0" }, { node = "b", device = "eth0" }]
`

func parse(text string) (*Scenario, error) {
	return Parse(Source{Name: "x", File: "x.toml", Text: []byte(text)})
}

func TestParseRefusesWhatCannotBeBuilt(t *testing.T) {
	if _, err := parse(good); err != nil {
		t.Fatalf("the scenario that the mistakes are added to: %v", err)
	}
	for _, c := range []struct{ name, text, place, want string }{
		{"text that is not TOML", "title = ", "x.toml:1:", ""},
		{"a key that is not known", good + "mtuu = 1\n", "x.toml:8:1", "not known"},
		{"no title", strings.Replace(good, `title = "t"`, "", 1), "x.toml", "no title"},
		{"no nodes", `title = "t"`, "x.toml", "no nodes"},
		{"a node's name with a hyphen", good + "[[node]]\nname = \"a-b\"\n", "x.toml:9:1", `"a-b" cannot be a node's name`},
		{"a node named like the middle of a link", good + "[[node]]\nname = \"link0\"\n", "x.toml:9:1", "middle of a link"},
		{"two nodes of one name", good + "[[node]]\nname = \"a\"\n", "x.toml:9:1", `a second node is called "a"`},
		{"a kind of node that is not known", good + "[[node]]\nname = \"c\"\nkind = \"vm\"\n", "x.toml:10:1", "no kind of node"},
		{"modules without a guest", good + "[[node]]\nname = \"c\"\nmodules = [\"vrf\"]\n", "x.toml:8:3", "for guests"},
		{"two IPv4 gateways", good + "[[node]]\nname = \"c\"\ngateway = [\"192.0.2.1\", \"192.0.2.2\"]\n", "x.toml:10:1", "two default gateways"},
		{"a sysctl that is not of the network", good + "[[node]]\nname = \"c\"\nsysctls = { \"kernel.panic\" = \"1\" }\n", "x.toml:10:1", "kernel.panic"},
		{"a sysctl that climbs out of its directory", good + "[[node]]\nname = \"c\"\nsysctls = { \"net/../kernel/panic\" = \"1\" }\n", "x.toml:10:1", "not a sysctl"},
		{"a file outside the node's directory", good + "[[node]]\nname = \"c\"\nfiles = { \"../x\" = \"\" }\n", "x.toml:10:1", "../x"},
		{"a route with host bits", good + "[[node]]\nname = \"c\"\nroute = [{ to = \"192.0.2.1/24\", device = \"eth0\" }]\n", "x.toml:10:1", "bits beyond"},
		{"a route to nowhere", good + "[[node]]\nname = \"c\"\nroute = [{ to = \"192.0.2.0/24\" }]\n", "x.toml:10:1", "leads nowhere"},
		{"a route to what is no prefix", good + "[[node]]\nname = \"c\"\nroute = [{ to = \"192.0.2.0\" }]\n", "x.toml:10:", ""},
		{"a process without a command", good + "[[node]]\nname = \"c\"\n[[node.process]]\nname = \"p\"\n", "x.toml:10:3", "no command"},
		{"a process before weft that does not end", good + "[[node]]\nname = \"c\"\n[[node.process]]\nname = \"p\"\nargv = [\"true\"]\nfirst = true\n", "x.toml:13:1", "must end before weft"},
		{"a process named like the router's log", good + "[[node]]\nname = \"c\"\n[[node.process]]\nname = \"weft\"\nargv = [\"true\"]\n", "x.toml:11:1", "process's name"},
		{"a configuration file that is not there", good + "[[node]]\nname = \"c\"\nweft = \"/nonexistent/weft.toml\"\n", "x.toml:10:1", "no file"},
		{"a link with one end", good + "[[link]]\nends = [{ node = \"a\", device = \"eth1\" }]\n", "x.toml:9:1", "1 ends"},
		{"a link to a node that is not there", strings.Replace(good, `node = "b"`, `node = "z"`, 1), "x.toml:7:1", `no node is called "z"`},
		{"two links on one device", good + "[[link]]\nends = [{ node = \"a\", device = \"eth0\" }, { node = \"b\", device = \"eth1\" }]\n", "x.toml:9:1", "already the end"},
		{"a device's name of 16 bytes", strings.Replace(good, `device = "eth0" }]`, `device = "abcdefghijklmnop" }]`, 1), "x.toml:7:1", "device's name"},
		{"an MTU of 20", good + "mtu = 20\n", "x.toml:8:1", "MTU of 20"},
		{"a rate without a unit", good + "rate = \"10\"\n", "x.toml:8:", "kbit, mbit, gbit"},
		{"a delay that runs backwards", good + "delay = \"-1s\"\n", "x.toml:8:", "negative"},
		{"a delay that the host cannot make", good + "delay = \"1s\"\n", "x.toml:6:3", "netem"},
		{"more than everything lost", good + "loss = 101.0\nvia = \"guest\"\n", "x.toml:8:1", "101 percent"},
		{"a check of no kind", good + "[[check]]\nkind = \"pong\"\n", "x.toml:9:1", "no kind of check"},
		{"a ping without a target", good + "[[check]]\nkind = \"ping\"\nname = \"n\"\nfrom = \"a\"\n", "x.toml:8:3", "needs to"},
		{"a ping with a counter", good + "[[check]]\nkind = \"ping\"\nname = \"n\"\nfrom = \"a\"\nto = \"::1\"\ncounted = [\"x\"]\n", "x.toml:13:1", "no use for counted"},
		{"a target that is no address", good + "[[check]]\nkind = \"ping\"\nname = \"n\"\nfrom = \"a\"\nto = \"b\"\n", "x.toml:12:", "not an IP address"},
		{"a check from a node that is not there", good + "[[check]]\nkind = \"ping\"\nname = \"n\"\nfrom = \"z\"\nto = \"::1\"\n", "x.toml:11:1", `no node is called "z"`},
		{"a place without a link", good + "[[check]]\nkind = \"observe\"\nname = \"n\"\nfrom = \"a\"\nto = \"::1\"\nplaces = [\"a:eth7\"]\n", "x.toml:13:1", "no link ends at a:eth7"},
		{"a place without a device", good + "[[check]]\nkind = \"observe\"\nname = \"n\"\nfrom = \"a\"\nto = \"::1\"\nplaces = [\"a\"]\n", "x.toml:13:", "node:device"},
		{"a transfer of a terabyte", good + "[[check]]\nkind = \"transfer\"\nname = \"n\"\nfrom = \"a\"\nat = \"b\"\nto = \"::1\"\nbytes = \"1024GiB\"\n", "x.toml:14:1", "more than a transfer moves"},
		{"a root without a guest", good + "[[node]]\nname = \"c\"\nroot = \"host\"\n", "x.toml:8:3", "for guests"},
		{"a root that is not known", good + "[[node]]\nname = \"c\"\nkind = \"qemu\"\nroot = \"disk\"\n", "x.toml:11:1", `"disk" is no root`},
		{"the root of a User-Mode Linux guest", good + "[[node]]\nname = \"c\"\nkind = \"uml\"\nroot = \"host\"\n", "x.toml:11:1", "always has the root"},
		{"systemd without the host's root", good + "[[node]]\nname = \"c\"\nkind = \"qemu\"\ninit = \"systemd\"\n", "x.toml:11:1", "host's root"},
		{"an init that is not known", good + "[[node]]\nname = \"c\"\nkind = \"qemu\"\nroot = \"host\"\ninit = \"runit\"\n", "x.toml:12:1", `"runit"`},
		{"a gateway beside systemd", good + "[[node]]\nname = \"c\"\nkind = \"qemu\"\nroot = \"host\"\ninit = \"systemd\"\ngateway = [\"192.0.2.1\"]\n", "x.toml:8:3", "configures its network itself"},
		{"addresses beside systemd", strings.Replace(good, `name = "a"`, "name = \"a\"\nkind = \"qemu\"\nroot = \"host\"\ninit = \"systemd\"", 1) + "[[link]]\nends = [{ node = \"a\", device = \"e\", addresses = [\"192.0.2.1/24\"] }, { node = \"b\", device = \"e\" }]\n", "x.toml:2:3", "configures its network itself"},
		{"a file of a guest without a place", good + "[[node]]\nname = \"c\"\nkind = \"uml\"\nfiles = { \"x\" = \"\" }\n", "x.toml:11:1", "a path from the root"},
		{"a process in a guest", good + "[[node]]\nname = \"c\"\nkind = \"qemu\"\nroot = \"host\"\n[[node.process]]\nname = \"p\"\nargv = [\"true\"]\n", "x.toml:12:3", "only before it boots"},
		{"a guest that restarts itself without systemd", good + "[[node]]\nname = \"c\"\nkind = \"qemu\"\nroot = \"host\"\n[[check]]\nkind = \"reboot\"\nname = \"n\"\nnode = \"c\"\nargv = [\"reboot\"]\n", "x.toml:16:1", "only a guest with systemd"},
		{"a check without a name", good + "[[check]]\nkind = \"counters\"\nnode = \"a\"\n", "x.toml:8:3", "no name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parse(c.text)
			if err == nil {
				t.Fatal("it was accepted")
			}
			if !strings.HasPrefix(err.Error(), c.place) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the message is\n%s\nwant it to begin with %s and to say %q", err, c.place, c.want)
			}
			var invalid Invalid
			if !errors.As(err, &invalid) {
				t.Errorf("the error is a %T, want the problems", err)
			}
		})
	}
}

func TestParseReportsAllProblemsInTheOrderOfTheFile(t *testing.T) {
	_, err := parse(good + "mtu = 7\n[[node]]\nname = \"A\"\n[[check]]\nkind = \"x\"\n")
	var invalid Invalid
	if !errors.As(err, &invalid) || len(invalid) != 3 {
		t.Fatalf("got %v, want three problems", err)
	}
	var lines []int
	for _, p := range invalid {
		lines = append(lines, p.Pos.Line)
		if p.Remedy == "" || p.Severity != state.Error {
			t.Errorf("%s: no remedy, or not an error", p)
		}
	}
	if lines[0] != 8 || lines[1] != 10 || lines[2] != 12 {
		t.Errorf("the problems are on lines %v, want 8, 10, 12", lines)
	}
}

func TestEveryScenarioOfTheProgramIsValidAndItsPictureIsTrue(t *testing.T) {
	sources, err := Embedded()
	if err != nil || len(sources) == 0 {
		t.Fatalf("scenarios: %d, %v", len(sources), err)
	}
	for _, src := range sources {
		s, err := Parse(src)
		if err != nil {
			t.Errorf("%s: %v", src.Name, err)
			continue
		}
		picture := strings.Join(Draw(s), "\n")
		for _, n := range s.Nodes {
			if !strings.Contains(picture, n.Name) {
				t.Errorf("%s: node %s is not in the picture", src.Name, n.Name)
			}
		}
		for _, l := range s.Links {
			for _, e := range l.Ends {
				for _, a := range addressesOf(s, e.Node, e.Device) {
					address, _, _ := strings.Cut(a, "/")
					if !strings.Contains(picture, address) {
						t.Errorf("%s: address %s of %s is not in the picture", src.Name, address, e.Node)
					}
				}
			}
		}
		for _, line := range Draw(s) {
			if len(line) > 98 {
				t.Errorf("%s: the picture is wider than a terminal: %q", src.Name, line)
			}
		}
	}
}

func TestUnitsAreReadAndWritten(t *testing.T) {
	var s Size
	var r Rate
	for text, want := range map[string]Size{"16MiB": 16 << 20, "1.5KiB": 1536, "100B": 100, "0B": 0} {
		if err := s.UnmarshalText([]byte(text)); err != nil || s != want {
			t.Errorf("size %s reads as %d, %v; want %d", text, s, err, want)
		}
	}
	for text, want := range map[string]Rate{"10mbit": 1e7, "1.5gbit": 1.5e9, "64kbit": 64000} {
		if err := r.UnmarshalText([]byte(text)); err != nil || r != want {
			t.Errorf("rate %s reads as %d, %v; want %d", text, r, err, want)
		}
	}
	for _, text := range []string{"", "MiB", "-1MiB", "1e30GiB", "nanMiB", "infB", "16", "16 apples"} {
		if err := s.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("size %q reads as %d, want it refused", text, s)
		}
	}
	if got := Size(16<<20).String() + " " + Rate(1.25e9).String(); got != "16 MiB 1.2 Gbit/s" {
		t.Errorf("units are written %q", got)
	}
}
