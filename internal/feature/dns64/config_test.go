package dns64_test

import (
	"net/netip"
	"slices"
	"testing"

	"weft/internal/config"
	"weft/internal/config/configtest"
	"weft/internal/feature/dns64"
	"weft/internal/state"
)

func sections() []config.Section { return append(config.CoreSections(), dns64.Section()) }

func TestEachMistakeGivesItsLine(t *testing.T) {
	if n := configtest.Bad(t, "testdata/bad", sections()); n < 15 {
		t.Errorf("%d files of mistakes, want 15 at least", n)
	}
}

func TestPlans(t *testing.T) {
	if n := configtest.Golden(t, "testdata/plan", sections(), dns64.Plan); n < 4 {
		t.Errorf("%d files, want 4 at least", n)
	}
}

func load(t *testing.T, text string) *config.File {
	t.Helper()
	f, problems := config.Load("weft.toml", []byte(text), sections())
	if state.HasErrors(problems) {
		t.Fatal(problems)
	}
	return f
}

func TestDefaultsComeFromTheInterfacesAndTranslators(t *testing.T) {
	f := load(t, `
[interface.lan]
addresses = ["2001:db8:1::1/64", "192.0.2.1/24"]
[interface.wan]
[dns64]
interfaces = ["lan"]
forwarders = ["2001:db8::53", "tls://192.0.2.9#DNS.example"]
`)
	p := netip.MustParsePrefix
	facts := state.Facts{
		Links: []state.LinkFact{{Name: "lan", Addresses: []netip.Prefix{p("2001:db8:1::1/64"), p("fe80::1/64"), p("2001:db8::53/128")}}},
		Prefixes64: []state.Prefix64{
			{Translator: "a", Prefix: p("64:ff9b::/96"), Interfaces: []string{"lan", "wan"}},
			{Translator: "b", Prefix: p("2001:db8:64::/96"), Interfaces: []string{"wan"}},
		},
		Delegated: []netip.Prefix{p("2001:db8:100::/48")},
	}
	s, ok := dns64.SettingsOf(f, facts)
	if !ok || len(s.Rules) != 1 || s.Rules[0].Prefix != p("64:ff9b::/96") {
		t.Errorf("%v %+v", ok, s.Rules)
	}
	var listens []string
	for _, a := range s.Listen {
		listens = append(listens, a.String())
	}
	if want := []string{"192.0.2.1:53", "[2001:db8::53]:53", "[2001:db8:1::1]:53", "[fe80::1%lan]:53"}; !slices.Equal(listens, want) {
		t.Errorf("listens on %v", listens)
	}
	if want := []netip.Prefix{p("fe80::/10"), p("2001:db8:1::/64"), p("192.0.2.0/24"), p("2001:db8::53/128"), p("2001:db8:100::/48")}; !slices.Equal(s.Clients, want) {
		t.Errorf("clients are %v", s.Clients)
	}
	// an address that the router got since is not asked
	if len(s.Forwarders) != 1 || s.Forwarders[0].String() != "tls://192.0.2.9#dns.example" {
		t.Errorf("forwarders are %v", s.Forwarders)
	}
	if _, ok := dns64.SettingsOf(load(t, "[interface.lan]\n"), facts); ok {
		t.Error("there is a name server without [dns64]")
	}
}
