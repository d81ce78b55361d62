package api

import "github.com/prometheus/client_golang/prometheus"

// nameMetrics are those of [dns64].
type nameMetrics struct {
	events, asked, cached *prometheus.Desc
}

func newNameMetrics() nameMetrics {
	return nameMetrics{
		events: prometheus.NewDesc("weft_dns64_events_total", "What the name server did, by event; weft show dns64 explains them.", []string{"event"}, nil),
		asked:  prometheus.NewDesc("weft_dns64_forwarder_queries_total", "Questions to forwarders.", []string{"forwarder", "result"}, nil),
		cached: prometheus.NewDesc("weft_dns64_cache_entries", "Answers that are kept.", nil, nil),
	}
}

// collect sends what there is of d, which may be nil.
func (m nameMetrics) collect(ch chan<- prometheus.Metric, d *DNS64) {
	if d == nil {
		return
	}
	for _, c := range d.Counters {
		ch <- prometheus.MustNewConstMetric(m.events, prometheus.CounterValue, float64(c.Count), c.Name)
	}
	for _, f := range d.Forwarders {
		ch <- prometheus.MustNewConstMetric(m.asked, prometheus.CounterValue, float64(f.Asked-f.Failed), f.Forwarder, "answered")
		ch <- prometheus.MustNewConstMetric(m.asked, prometheus.CounterValue, float64(f.Failed), f.Forwarder, "failed")
	}
	ch <- prometheus.MustNewConstMetric(m.cached, prometheus.GaugeValue, float64(d.Cached))
}
