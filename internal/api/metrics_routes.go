package api

import (
	"context"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// routeMetrics are those of the mirror of the routes.
type routeMetrics struct {
	prefixes, left, nexthops, neighbours, suspended, changes, listings, behind *prometheus.Desc
}

func newRouteMetrics() routeMetrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("weft_route_"+name, help, labels, nil)
	}
	return routeMetrics{
		prefixes:   desc("prefixes", "Prefixes that weft's route tables mirror.", "family"),
		left:       desc("left_to_the_kernel", "Routes that are left to the kernel, by the reason.", "family", "why"),
		nexthops:   desc("nexthops", "Next hops that routes share."),
		neighbours: desc("neighbours", "Neighbours on connected subnets with an entry of their own."),
		suspended:  desc("suspended", "Whether the whole family is left to the kernel.", "family"),
		changes:    desc("changes_total", "News of routes that the kernel had."),
		listings:   desc("listings_total", "How often all routes of the kernel were listed: at the start, and when news may have been lost."),
		behind:     desc("lag_seconds", "For how long news of the kernel have been waiting to be mirrored."),
	}
}

func (m routeMetrics) descs() []*prometheus.Desc {
	return []*prometheus.Desc{m.prefixes, m.left, m.nexthops, m.neighbours, m.suspended, m.changes, m.listings, m.behind}
}

// mirrorTimeout bounds the wait for a mirror that lists routes.
const mirrorTimeout = time.Second

func (m routeMetrics) collect(ch chan<- prometheus.Metric, source RouteSource) {
	ctx, cancel := context.WithTimeout(context.Background(), mirrorTimeout)
	defer cancel()
	mirror, err := source.Mirror(ctx)
	if err != nil {
		return // weft does not route
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, n uint64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n))
	}
	gauge(m.behind, mirror.Behind.Seconds())
	counter(m.listings, mirror.Listings)
	s := mirror.Status
	if s == nil {
		return
	}
	gauge(m.prefixes, float64(s.Prefixes4), "ipv4")
	gauge(m.prefixes, float64(s.Prefixes6), "ipv6")
	gauge(m.nexthops, float64(s.Nexthops))
	gauge(m.neighbours, float64(s.Hosts))
	counter(m.changes, s.Changes)
	for i, family := range []string{"ipv4", "ipv6"} {
		suspended := 0.0
		if s.Suspended[i] != "" {
			suspended = 1
		}
		gauge(m.suspended, suspended, family)
	}
	for _, l := range s.Stack {
		gauge(m.left, float64(l.Routes), strings.ToLower(l.Family), l.Why)
	}
}
