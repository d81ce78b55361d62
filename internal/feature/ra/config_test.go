package ra_test

import (
	"net/netip"
	"slices"
	"testing"

	"weft/internal/config"
	"weft/internal/config/configtest"
	"weft/internal/feature/ra"
	"weft/internal/state"
)

func sections() []config.Section { return append(config.CoreSections(), ra.Section()) }

func TestEachMistakeGivesItsLine(t *testing.T) {
	if n := configtest.Bad(t, "testdata/bad", sections()); n < 15 {
		t.Errorf("%d files of mistakes, want 15 at least", n)
	}
}

func TestPlans(t *testing.T) {
	if n := configtest.Golden(t, "testdata/plan", sections(), ra.Plan); n < 3 {
		t.Errorf("%d files, want 3 at least", n)
	}
}

func TestDefaultsComeFromTheOtherSections(t *testing.T) {
	p := netip.MustParsePrefix
	facts := state.Facts{
		Links:      []state.LinkFact{{Name: "eth1", MAC: [6]byte{2, 0, 0, 0, 0, 1}, Addresses: []netip.Prefix{p("fe80::1/64"), p("2001:db8:2::1/64"), p("2001:db8:3::1/48")}}},
		Prefixes64: []state.Prefix64{{Prefix: p("64:ff9b::/96"), Interfaces: []string{"lan"}}, {Prefix: p("2001:db8:64::/96"), Interfaces: []string{"wan"}}},
		NameServer: []string{"lan"},
	}
	load := func(text string) ra.Settings {
		f, problems := config.Load("weft.toml", []byte("[interface.lan]\ndevice = \"eth1\"\naddresses = [\"2001:db8:1::1/64\"]\n"+text), sections())
		if state.HasErrors(problems) {
			t.Fatal(problems)
		}
		s, ok := ra.SettingsOf(f, facts, f.Names("ra")[0])
		if !ok {
			t.Fatal("the interface is not there")
		}
		return s
	}
	s := load("[ra.lan]\n")
	var prefixes []string
	for _, a := range s.Prefixes {
		prefixes = append(prefixes, a.Prefix.String())
	}
	if !slices.Equal(prefixes, []string{"2001:db8:1::/64", "2001:db8:2::/64"}) || !s.Prefixes[0].OnLink || !s.Prefixes[0].Autonomous {
		t.Errorf("%+v", s.Prefixes)
	}
	if len(s.DNS) != 1 || s.DNS[0] != netip.MustParseAddr("2001:db8:1::1") || len(s.PREF64) != 1 || s.PREF64[0] != p("64:ff9b::/96") || s.Managed || s.Other {
		t.Errorf("%+v", s)
	}
	s = load("[ra.home]\ninterface = \"lan\"\ndns = []\npref64 = []\ndhcpv6 = \"stateful\"\ndelegate = [\"2001:db8:100::/48\"]\n")
	if len(s.DNS) != 0 || len(s.PREF64) != 0 || s.Managed || !s.Other {
		t.Errorf("%+v", s)
	}
	s = load("[ra.lan]\ndhcpv6 = \"stateful\"\npool = [\"2001:db8:1::d:0/112\"]\nprefixes = [{ prefix = \"2001:db8:1::/64\", no_autoconfig = true, valid_lifetime = \"20m\" }]\n")
	if a := s.Prefixes[0]; !s.Managed || a.Autonomous || a.Preferred != a.Valid || len(s.Prefixes) != 1 {
		t.Errorf("%+v", s)
	}
}
