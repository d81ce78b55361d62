package api

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// offloadMetrics are what the offloader knows; without [offload] there are none.
type offloadMetrics struct {
	connections, hops, taken, left *prometheus.Desc
}

func newOffloadMetrics() offloadMetrics {
	return offloadMetrics{
		connections: prometheus.NewDesc("weft_offload_connections", "Connections with an offloaded direction.", nil, nil),
		hops:        prometheus.NewDesc("weft_offload_hops", "Ways out that offloaded flows may take.", nil, nil),
		taken:       prometheus.NewDesc("weft_offload_flows_total", "Flows that were offloaded.", nil, nil),
		left:        prometheus.NewDesc("weft_offload_left_total", "How often a flow that was worth offloading stayed with the stack, by reason.", []string{"why"}, nil),
	}
}

func (m offloadMetrics) descs() []*prometheus.Desc {
	return []*prometheus.Desc{m.connections, m.hops, m.taken, m.left}
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
}
