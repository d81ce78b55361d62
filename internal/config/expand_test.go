package config

import (
	"net/netip"
	"strings"
	"testing"
)

type friendly struct {
	Ports     []string       `toml:"ports" doc:"d"`
	Addresses []netip.Prefix `toml:"addresses" ip:"host" doc:"d"`
	MTU       int            `toml:"mtu" min:"0" max:"65535" doc:"d"`
	Name      string         `toml:"name" doc:"d"`
}

type listing struct {
	Interfaces []string `toml:"interfaces" doc:"d"`
	Quick      bool     `toml:"quick" doc:"d"`
	Word       string   `toml:"word" doc:"d"`
	Entries    []struct {
		Key string `toml:"key" doc:"d"`
	} `toml:"entries" doc:"d"`
}

func friendlySections() []Section {
	return append(CoreSections(),
		Section{
			Name: "room", Named: true, New: func(string) any { return &friendly{} },
			Expand: func(e *Expander, name string, s any) {
				at := "interface." + name
				e.Section(at)
				if ports := s.(*friendly).Ports; len(ports) > 0 {
					e.Set(at+".device", ports[0], "ports[0]")
				}
				e.Copy(at+".addresses", "addresses")
				e.Copy(at+".mtu", "mtu")
				e.Add("listing.interfaces", name, "")
				e.Set("listing.quick", true, "name")
				if n := s.(*friendly).Name; n != "" {
					e.Set("listing.word", n, "name")
					e.Add("listing.entries", map[string]string{"key": n}, "name")
				}
			},
		},
		Section{Name: "listing", New: func(string) any { return &listing{} }, Check: func(c *Checker, _ string, s any) {
			c.Interfaces("interfaces", s.(*listing).Interfaces)
		}},
	)
}

const friendlyText = `[room.den]
ports = ["eth1"]
addresses = ["192.0.2.1/24"]
name = "a \"b\" \\ ü"

[interface.den]
mtu = 1400
`

func TestASectionIsExpanded(t *testing.T) {
	f, problems := Load("weft.toml", []byte(friendlyText), friendlySections())
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	i := f.Interface("den")
	if i.Device != "eth1" || i.MTU != 1400 || len(i.Addresses) != 1 {
		t.Errorf("interface.den is %+v", i)
	}
	l := f.Get("listing", "").(*listing)
	if !l.Quick || l.Word != "a \"b\" \\ ü" || len(l.Interfaces) != 1 || len(l.Entries) != 1 || l.Entries[0].Key != l.Word {
		t.Errorf("listing is %+v", l)
	}
	if got := f.Position("interface.den.device").Line; got != 2 {
		t.Errorf("the device has line %d, want that of ports", got)
	}
	for path, want := range map[string]string{
		"interface.den.device": "room.den.ports[0]", "interface.den.addresses[0]": "room.den.addresses[0]",
		"interface.den.mtu": "interface.den.mtu", "listing.interfaces[0]": "room.den", "listing": "room.den", "router.name": "router.name",
	} {
		if got := f.Written(path); got != want {
			t.Errorf("%s is written as %s, want %s", path, got, want)
		}
	}
}

// What is printed loads, expands to nothing more, and means the same.
func TestTheExpandedFileMeansTheSame(t *testing.T) {
	f, _ := Load("weft.toml", []byte(friendlyText), friendlySections())
	text := f.Expanded()
	if strings.Contains(text, "[room") && !strings.Contains(text, "# of [room.den]") {
		t.Errorf("a section that expands is left in\n%s", text)
	}
	g, problems := Load("expanded.toml", []byte(text), friendlySections())
	if len(problems) > 0 {
		t.Fatalf("%v in\n%s", problems, text)
	}
	for _, path := range []string{"interface.den.mtu", "interface.den.device", "interface.den.addresses[0]", "listing.quick", "listing.word", "listing.entries[0].key"} {
		if !g.Given(path) || valueText(g.find(path)) != valueText(f.find(path)) {
			t.Errorf("%s is another one in\n%s", path, text)
		}
	}
}

func TestWhatIsGivenTwiceIsAnErrorWithBothPlaces(t *testing.T) {
	_, problems := Load("weft.toml", []byte("[room.den]\nports = [\"eth1\"]\n\n[interface.den]\ndevice = \"eth2\"\n"), friendlySections())
	want := `weft.toml:5:10: error: interface.den.device: is given by room.den.ports[0] on line 2 too (keep one of the two)`
	if len(problems) != 1 || problems[0].String() != want {
		t.Errorf("got %v, want %s", problems, want)
	}
	_, problems = Load("weft.toml", []byte("[room.den]\nname = \"a\"\n[room.attic]\nname = \"b\"\n"), friendlySections())
	if len(problems) != 1 || !strings.Contains(problems[0].String(), "room.den.name: is given by room.attic.name on line 4 too") {
		t.Errorf("got %v", problems)
	}
}

// A value that is wrong is reported once, where the file has it.
func TestAWrongValueOfAnExpandedSectionIsReportedOnce(t *testing.T) {
	for text, want := range map[string]string{
		"[room.den]\naddresses = [\"192.0.2.0/24\"]\n": "weft.toml:2:14: error: room.den.addresses[0]: ",
		"[room.den]\nmtu = 3\n":                        "weft.toml:2:7: error: room.den.mtu: ",
		"[room.den]\nmtu = \"x\"\n":                    "weft.toml:2:7: error: room.den.mtu: ",
		"[room.den]\nport = [\"a\"]\n":                 "weft.toml:2:1: error: room.den.port: ",
		"[room]\n":                                     "weft.toml:1:2: error: room: the section needs a name",
		"room = 3\n":                                   "weft.toml:1:1: error: room: is a section",
		"[rom.den]\nmtu = 1400\n":                      "weft.toml:1:2: error: rom: is not a section",
	} {
		_, problems := Load("weft.toml", []byte(text), friendlySections())
		if len(problems) != 1 || !strings.HasPrefix(problems[0].String(), want) {
			t.Errorf("%q gives %v, want %s", text, problems, want)
		}
	}
}
