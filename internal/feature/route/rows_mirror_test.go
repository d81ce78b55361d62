package route

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"
)

// mirrorOnly is a mirror without tables to look into.
type mirrorOnly struct {
	MirrorSource
	mirror Mirror
	err    error
}

func (m mirrorOnly) Mirror(context.Context) (Mirror, error) { return m.mirror, m.err }

func TestMetricsOfTheMirror(t *testing.T) {
	status := Status{
		Prefixes4: 902000, Prefixes6: 160000, Hosts: 7, Nexthops: 30, Changes: 12, Suspended: [2]string{"", "a rule"},
		Stack: []LeftOver{{Family: "IPv4", Why: "encap", Routes: 3}},
	}
	always := map[string]float64{"weft_route_dumps_total": 2, "weft_route_lag_seconds": 0.25}
	whole := maps.Clone(always)
	maps.Copy(whole, map[string]float64{
		"weft_route_prefixes ipv4": 902000, "weft_route_prefixes ipv6": 160000, "weft_route_neighbours": 7, "weft_route_nexthops": 30,
		"weft_route_changes_total": 12, "weft_route_suspended ipv4": 0, "weft_route_suspended ipv6": 1, "weft_route_left_to_the_kernel ipv4 encap": 3,
	})
	for name, c := range map[string]struct {
		source mirrorOnly
		want   map[string]float64
	}{
		"a mirror that answers":  {mirrorOnly{mirror: Mirror{&status, 2, 250 * time.Millisecond}}, whole},
		"one that lists routes":  {mirrorOnly{mirror: Mirror{nil, 2, 250 * time.Millisecond}}, always},
		"a router without route": {mirrorOnly{err: errors.New("no [route]")}, map[string]float64{}},
	} {
		got := map[string]float64{}
		err := routeMirror().Measure(t.Context(), c.source, nil, func(metric string, v float64, labels ...string) {
			got[strings.Join(append([]string{metric}, labels...), " ")] = v
		})
		if (err != nil) != (c.source.err != nil) {
			t.Fatal(err)
		}
		if !maps.Equal(got, c.want) {
			t.Errorf("%s:\n%v\nwant\n%v", name, got, c.want)
		}
	}
}
