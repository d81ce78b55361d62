package api

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"weft/internal/noun"
)

// ServeMetrics serves Prometheus at /metrics until ctx ends.
func ServeMetrics(ctx context.Context, address string, registry Registry) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listen for Prometheus on %s: %w", address, err)
	}
	serveHTTP(ctx, listener, metricsHandler(newCollector(registry), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})))
	return nil
}

func metricsHandler(list ...prometheus.Collector) http.Handler {
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(list...)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	return mux
}

// measureTimeout bounds the wait for one noun: what answers may be busy.
const measureTimeout = time.Second

// collector gives Prometheus what the nouns measure.
type collector struct {
	registry Registry
	metrics  map[string]metric
}

type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func newCollector(r Registry) *collector {
	c := &collector{registry: r, metrics: map[string]metric{}}
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
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range c.metrics {
		ch <- m.desc
	}
}

// Collect is of prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
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

func (c *collector) measure(n noun.Noun, ch chan<- prometheus.Metric) error {
	ctx, cancel := context.WithTimeout(context.Background(), measureTimeout)
	defer cancel()
	q := &noun.Query{Asker: c.registry.ask}
	return n.Measure(ctx, c.registry.Source(n.Name), q, func(name string, value float64, labels ...string) {
		m := c.metrics[name]
		ch <- prometheus.MustNewConstMetric(m.desc, m.kind, value, labels...)
	})
}
