package api

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weft/internal/noun"
)

// measureTimeout bounds the wait for one noun: what answers may be busy.
const measureTimeout = time.Second

// nounCollector gives Prometheus what the nouns measure.
type nounCollector struct {
	registry Registry
	metrics  map[string]metric
}

type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func newNounCollector(r Registry) *nounCollector {
	c := &nounCollector{registry: r, metrics: map[string]metric{}}
	for n := range noun.All(r.Nouns) {
		for _, d := range n.Metrics {
			kind := prometheus.GaugeValue
			if d.Type == noun.Counter {
				kind = prometheus.CounterValue
			}
			c.metrics[d.Name] = metric{prometheus.NewDesc(d.Name, d.Help, d.Labels, nil), kind}
		}
	}
	return c
}

// Describe is of prometheus.Collector.
func (c *nounCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range c.metrics {
		ch <- m.desc
	}
}

// Collect is of prometheus.Collector.
func (c *nounCollector) Collect(ch chan<- prometheus.Metric) {
	for n := range noun.All(c.registry.Nouns) {
		if len(n.Metrics) == 0 {
			continue
		}
		err := c.measure(n, ch)
		// what the daemon does not run has no metrics; maps can always be read
		if err != nil && n.From != noun.Daemon {
			ch <- prometheus.NewInvalidMetric(c.metrics[n.Metrics[0].Name].desc, err)
		}
	}
}

func (c *nounCollector) measure(n noun.Noun, ch chan<- prometheus.Metric) error {
	ctx, cancel := context.WithTimeout(context.Background(), measureTimeout)
	defer cancel()
	q := &noun.Query{Asker: c.registry.ask}
	return n.Measure(ctx, c.registry.Source(n.Name), q, func(name string, value float64, labels ...string) {
		m := c.metrics[name]
		ch <- prometheus.MustNewConstMetric(m.desc, m.kind, value, labels...)
	})
}
