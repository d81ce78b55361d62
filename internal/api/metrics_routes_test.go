package api

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weft/internal/feature/route"
)

// mirrorOnly is a mirror without tables to look into.
type mirrorOnly struct {
	RouteSource
	mirror Mirror
	err    error
}

func (m mirrorOnly) Mirror(context.Context) (Mirror, error) { return m.mirror, m.err }

// routeCollector is the part of the collector that tells of routes.
type routeCollector struct {
	routeMetrics
	source RouteSource
}

func (c routeCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs() {
		ch <- d
	}
}

func (c routeCollector) Collect(ch chan<- prometheus.Metric) { c.collect(ch, c.source) }

func TestMetricsOfTheMirror(t *testing.T) {
	status := route.Status{
		Prefixes4: 902000, Prefixes6: 160000, Hosts: 7, Nexthops: 30, Changes: 12, Suspended: [2]string{"", "a rule"},
		Stack: []route.LeftOver{{Family: "IPv4", Why: "encap", Routes: 3}},
	}
	always := map[string]float64{"weft_route_listings_total": 2, "weft_route_lag_seconds": 0.25}
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
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(routeCollector{newRouteMetrics(), c.source})
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				name := []string{f.GetName()}
				for _, l := range m.GetLabel() {
					name = append(name, l.GetValue())
				}
				got[strings.Join(name, " ")] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
		if !maps.Equal(got, c.want) {
			t.Errorf("%s:\n%v\nwant\n%v", name, got, c.want)
		}
	}
}
