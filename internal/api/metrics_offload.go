package api

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weft/internal/feature/offload"
)

// offloadMetrics are what the offloader knows; without [offload] there are none.
type offloadMetrics struct {
	connections, hops, taken, left, recent *prometheus.Desc
	refused, refusals, notRefused          *prometheus.Desc
	routes                                 *prometheus.Desc
}

func newOffloadMetrics() offloadMetrics {
	return offloadMetrics{
		connections: prometheus.NewDesc("weft_offload_connections", "Connections with an offloaded direction.", nil, nil),
		hops:        prometheus.NewDesc("weft_offload_hops", "Ways out that offloaded flows may take.", nil, nil),
		taken:       prometheus.NewDesc("weft_offload_flows_total", "Flows that were offloaded.", nil, nil),
		left:        prometheus.NewDesc("weft_offload_left_total", "How often a flow that was worth offloading stayed with the stack, by reason.", []string{"why"}, nil),
		recent:      prometheus.NewDesc("weft_offload_stack_flows", "Flows that are worth offloading and stay with the stack, of the last 1024, by reason.", []string{"why"}, nil),
		refused:     prometheus.NewDesc("weft_offload_refused_flows", "Flows that the ruleset refused and that are dropped early now.", nil, nil),
		refusals:    prometheus.NewDesc("weft_offload_refused_flows_total", "Flows that the ruleset refused and that were dropped early.", nil, nil),
		notRefused:  prometheus.NewDesc("weft_offload_not_refused_total", "How often a refused packet did not have its flow dropped early, by reason.", []string{"why"}, nil),
		routes:      prometheus.NewDesc("weft_offload_route_changes_total", "Changes of routes, by whether they took flows back.", []string{"flows"}, nil),
	}
}

func (m offloadMetrics) descs() []*prometheus.Desc {
	return []*prometheus.Desc{m.connections, m.hops, m.taken, m.left, m.recent, m.refused, m.refusals, m.notRefused, m.routes}
}

func (m offloadMetrics) collect(ch chan<- prometheus.Metric, source OffloadSource) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s, err := source.Offload(ctx)
	if err != nil {
		return
	}
	ch <- prometheus.MustNewConstMetric(m.connections, prometheus.GaugeValue, float64(s.Connections))
	ch <- prometheus.MustNewConstMetric(m.hops, prometheus.GaugeValue, float64(s.Hops))
	ch <- prometheus.MustNewConstMetric(m.taken, prometheus.CounterValue, float64(s.Taken))
	for why, n := range s.Left {
		ch <- prometheus.MustNewConstMetric(m.left, prometheus.CounterValue, float64(n), string(why))
	}
	recent := map[offload.Why]int{}
	for _, l := range s.Recent {
		recent[l.Why]++
	}
	for why, n := range recent {
		ch <- prometheus.MustNewConstMetric(m.recent, prometheus.GaugeValue, float64(n), string(why))
	}
	ch <- prometheus.MustNewConstMetric(m.refused, prometheus.GaugeValue, float64(len(s.Refused)))
	ch <- prometheus.MustNewConstMetric(m.refusals, prometheus.CounterValue, float64(s.Refusals))
	for why, n := range s.NotRefused {
		ch <- prometheus.MustNewConstMetric(m.notRefused, prometheus.CounterValue, float64(n), string(why))
	}
	ch <- prometheus.MustNewConstMetric(m.routes, prometheus.CounterValue, float64(s.RouteHits), "taken back")
	ch <- prometheus.MustNewConstMetric(m.routes, prometheus.CounterValue, float64(s.RouteNews-s.RouteHits), "none")
}
