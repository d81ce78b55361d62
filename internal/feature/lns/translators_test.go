package lns_test

import (
	"net/netip"
	"slices"
	"testing"

	"weft/internal/config"
	"weft/internal/feature/lns"
	"weft/internal/state"
)

func TestSubscribersAreToldOfTheTranslatorsThatServeThem(t *testing.T) {
	const text = `
[interface.wan]
[interface.subscribers]
device = "lns-isp"
[lns.isp]
listen = ["192.0.2.1"]
lacs = [{ address = "198.51.100.0/24" }]
users = [{ login = "a", password = "b" }]
`
	serves := func(name, p string, interfaces ...string) state.Prefix64 {
		return state.Prefix64{Translator: name, Prefix: netip.MustParsePrefix(p), Interfaces: interfaces}
	}
	facts := state.Facts{Prefixes64: []state.Prefix64{
		serves("one", "64:ff9b::/96", "wan", "subscribers"), serves("two", "2001:db8:64::/96", "wan"), serves("one", "64:ff9b::/96", "subscribers"),
	}}
	for _, c := range []struct {
		more string
		want []string
	}{{"", []string{"64:ff9b::/96"}}, {"pref64 = []\n", nil}, {"pref64 = [\"2001:db8:1::/48\"]\n", []string{"2001:db8:1::/48"}}} {
		f, problems := config.Load("", []byte(text+c.more), sections())
		if state.HasErrors(problems) {
			t.Fatal(problems)
		}
		servers, _ := lns.Settings(f, facts)
		var got []string
		for _, p := range servers[0].PREF64 {
			got = append(got, p.String())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q: %v, want %v", c.more, got, c.want)
		}
	}
}
