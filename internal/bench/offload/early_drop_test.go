package offload

import (
	"net/netip"
	"testing"
)

func TestCountersOfRefusedPackets(t *testing.T) {
	n, err := countedByRuleset([]byte(`{"nftables": [{"metainfo": {"version": "1.0.6"}}, {"counter": {"family": "inet", "name": "refused", "table": "bench", "handle": 2, "packets": 7, "bytes": 448}}]}`))
	if n != 7 || err != nil {
		t.Errorf("the ruleset's: %d, %v", n, err)
	}
	if _, err := countedByRuleset([]byte(`{"nftables": [{"metainfo": {}}]}`)); err == nil {
		t.Error("a counter that is not there was read")
	}
	n, err = countedByWeft([]byte(`[{"program": "ingress_xdp", "outcome": "drop-blocked", "packets": 3}, {"program": "ingress_xdp", "outcome": "pass", "packets": 9}, {"program": "ingress_tc", "outcome": "drop-blocked", "packets": 2}, {"program": "ingress_tc", "outcome": "drop-early", "packets": 5}]`), "drop-blocked")
	if n != 5 || err != nil {
		t.Errorf("weft's: %d, %v", n, err)
	}
}

// A host that is in the path and on the list would have nothing arrive.
func TestListedHostsAreOthers(t *testing.T) {
	seen := map[netip.Addr]bool{}
	for _, a := range listed(many) {
		if seen[a] || !a.IsGlobalUnicast() || a.Is4() && a.As4()[0] == 10 || right.Host[1].Contains(a) {
			t.Fatalf("%s is listed", a)
		}
		seen[a] = true
	}
	if len(seen) != many {
		t.Errorf("%d hosts are listed, want %d", len(seen), many)
	}
}
