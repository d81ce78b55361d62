package lns

import (
	"context"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"weft/internal/addresspool"
	"weft/internal/noun"
	"weft/internal/subscriber"
)

// desk is a daemon with two sections of subscribers.
type desk struct{ Source }

func (desk) Subscribers(context.Context) iter.Seq[Subscriber] {
	one := func(section, state string, up, down uint64, drops map[string]uint64) Subscriber {
		s := Subscriber{Drops: drops, Traffic: subscriber.Traffic{UpBytes: up, DownBytes: down, UpPackets: up / 100, DownPackets: down / 100}}
		s.LNS, s.State = section, state
		return s
	}
	return slices.Values([]Subscriber{
		one("dsl", "up", 1000, 5000, map[string]uint64{"spoofed": 3}), one("dsl", "up", 2000, 0, map[string]uint64{"spoofed": 1, "downstream-rate": 7}),
		one("dsl", "authenticating", 0, 0, nil), one("fibre", "up", 100, 100, nil),
	})
}

func (desk) Sections(context.Context) []string { return []string{"dsl", "fibre", "new"} }

func (desk) Tunnels(context.Context) []subscriber.TunnelRow {
	return []subscriber.TunnelRow{{Section: "lns.dsl", State: "established"}, {Section: "lns.dsl", State: "closing"}, {Section: "lns.dsl", State: "established"}}
}

func (desk) Clients(context.Context) []subscriber.ClientRow {
	up := subscriber.ClientRow{Name: "isp"}
	up.Up = true
	return []subscriber.ClientRow{up, {Name: "other"}}
}

func (desk) LNSStats(context.Context) subscriber.Stats {
	return subscriber.Stats{Accepted: 9, Rejected: 2, NoAddress: 1, Malformed: 5}
}

func (desk) Pools(context.Context) []subscriber.PoolRow {
	return []subscriber.PoolRow{{LNS: "dsl", Usage: addresspool.Usage{Pool: "pools", Space: netip.MustParsePrefix("203.0.113.0/24"), Used: 4, Free: 250}}}
}

func (desk) RADIUS(context.Context) []RADIUSServer {
	return []RADIUSServer{{LNS: "dsl", Server: netip.MustParseAddrPort("192.0.2.53:1812"), Answered: 11, Silent: 2, Forged: 1, Reported: 20, Unreported: 3, Waiting: 6, Lost: 2}}
}

func TestMetricsOfSubscribers(t *testing.T) {
	got, events, zeroes := map[string]float64{}, 0, map[string]bool{}
	for n := range noun.All(Nouns()) {
		if n.From != noun.Daemon {
			continue
		}
		labels := map[string][]string{}
		for _, m := range n.Metrics {
			labels[m.Name] = m.Labels
		}
		err := n.Measure(t.Context(), desk{}, nil, func(metric string, v float64, values ...string) {
			if len(values) != len(labels[metric]) {
				t.Errorf("%s has the labels %v, and got %v", metric, labels[metric], values)
			}
			name := strings.Join(append([]string{strings.TrimPrefix(metric, "weft_")}, sortedByLabel(labels[metric], values)...), " ")
			if metric == "weft_lns_events_total" {
				events++
			}
			if v == 0 {
				zeroes[name] = true
			} else {
				got[name] = v
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]float64{
		"lns_sessions dsl up": 2, "lns_sessions dsl authenticating": 1, "lns_sessions fibre up": 1,
		"l2tp_tunnels lns.dsl established": 2, "l2tp_tunnels lns.dsl closing": 1,
		"lns_bytes up dsl": 3000, "lns_bytes down dsl": 5000, "lns_bytes up fibre": 100, "lns_bytes down fibre": 100,
		"lns_packets up dsl": 30, "lns_packets down dsl": 50, "lns_packets up fibre": 1, "lns_packets down fibre": 1,
		"lns_drops dsl spoofed": 4, "lns_drops dsl downstream-rate": 7,
		"lns_pool dsl pools 203.0.113.0/24 used": 4, "lns_pool dsl pools 203.0.113.0/24 free": 250,
		"l2tp_client_up isp": 1,
		"radius_requests_total dsl answered 192.0.2.53:1812": 11, "radius_requests_total dsl silent 192.0.2.53:1812": 2,
		"radius_requests_total dsl forged 192.0.2.53:1812": 1, "radius_requests_total dsl accounted 192.0.2.53:1812": 20,
		"radius_requests_total dsl account-silent 192.0.2.53:1812": 3, "radius_accounts_waiting dsl": 6, "radius_accounts_lost_total dsl": 2,
		"lns_events_total accepted": 9, "lns_events_total rejected": 2, "lns_events_total no-address": 1, "lns_events_total malformed": 5,
	}
	if !maps.Equal(got, want) || events < 13 {
		t.Errorf("%d events,\n%v\nwant\n%v", events, got, want)
	}
	// a state without sessions is a zero, not a missing series
	for _, name := range []string{
		"l2tp_client_up other", "lns_sessions new up", "lns_sessions new connecting", "lns_sessions dsl switched", "lns_bytes up new", "lns_packets down new",
		"lns_drops new spoofed", "lns_drops fibre upstream-rate", "l2tp_tunnels lns.new established", "l2tp_tunnels l2tp_client.other established",
		"lns_events_total spoofed",
	} {
		if !zeroes[name] {
			t.Errorf("there is no row %q", name)
		}
	}
}

// sortedByLabel gives values in the order of their labels' names.
func sortedByLabel(labels, values []string) []string {
	byName := map[string]string{}
	for i, l := range labels {
		byName[l] = values[i]
	}
	var list []string
	for _, l := range slices.Sorted(maps.Keys(byName)) {
		list = append(list, byName[l])
	}
	return list
}
