package nat64_test

import (
	"fmt"
	"testing"

	"weft/internal/config"
	"weft/internal/feature/nat64"
	"weft/internal/state"
)

// RFC 6888 REQ-4: without a limit in the file one subscriber still cannot take all ports
// and sessions.
func TestASubscriberHasAFairShareByDefault(t *testing.T) {
	for keys, want := range map[string][2]int{
		"":                                 {16384, 65536},
		"bindings = 4096\nsessions = 8192": {1024, 2048},
		"fair_share = false":               {0, 0},
		"ports_per_subscriber = 100":       {100, 65536},
		"sessions_per_subscriber = 100":    {16384, 100},
		"fair_share = false\nports_per_subscriber = 100":                                                               {100, 0},
		"port_block = 1024\nsubscribers = \"2001:db8:1000::/62\"":                                                      {0, 65536},
		`pools = [{ ipv4 = "203.0.113.1/32", ports = "2000-2999" }, { ipv4 = "203.0.113.2/32", ports = "1024-4023" }]`: {1000, 65536},
	} {
		pools := "pools = [{ ipv4 = \"203.0.113.0/30\" }]\n"
		if len(keys) > 5 && keys[:5] == "pools" {
			pools = ""
		}
		text := fmt.Sprintf("[interface.lan]\n[interface.wan]\n[nat64.main]\nmode = \"stateful\"\nprefix = \"64:ff9b::/96\"\ninterfaces = [\"lan\", \"wan\"]\n%s%s\n", pools, keys)
		f, problems := config.Load("", []byte(text), append(config.CoreSections(), nat64.Section()))
		if state.HasErrors(problems) {
			t.Fatal(keys, problems)
		}
		facts := state.Facts{Links: []state.LinkFact{{Name: "lan"}, {Name: "wan"}}}
		found := false
		for _, o := range nat64.Plan(f, facts).Objects {
			if a, ok := o.(state.Allocator); ok {
				found = true
				if got := [2]int{a.PortsMax, a.SessionsMax}; got != want {
					t.Errorf("%q: a subscriber has %d ports and %d sessions, want %d", keys, got[0], got[1], want)
				}
			}
		}
		if !found {
			t.Errorf("%q: no allocator is planned", keys)
		}
	}
}
