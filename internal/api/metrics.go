package api

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// ServeMetrics serves Prometheus at /metrics until ctx ends.
func ServeMetrics(ctx context.Context, address string, registry Registry, source Source) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listen for Prometheus on %s: %w", address, err)
	}
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(newNounCollector(registry), newCollector(source), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	serveHTTP(ctx, listener, mux)
	return nil
}

type collector struct {
	source   Source
	build    *prometheus.Desc
	refused  *prometheus.Desc
	listed   *prometheus.Desc
	names    nameMetrics
	adverts  advertMetrics
	access   accessMetrics
	offload  offloadMetrics
	routes   routeMetrics
	failover failoverMetrics
}

func newCollector(source Source) *collector {
	return &collector{
		source:  source,
		names:   newNameMetrics(),
		adverts: newAdvertMetrics(), offload: newOffloadMetrics(), access: newAccessMetrics(),
		routes: newRouteMetrics(), failover: newFailoverMetrics(),
		build:   prometheus.NewDesc("weft_info", "Version of weft.", []string{"version"}, nil),
		refused: prometheus.NewDesc("weft_reload_refused", "1 while the last reload was refused, and the configuration in force is an older one.", nil, nil),
		listed:  prometheus.NewDesc("weft_block_list_entries", "Prefixes of the block list in force, exceptions and bogons among them.", nil, nil),
	}
}

func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.build, c.refused, c.listed, c.names.events, c.names.asked, c.names.cached, c.adverts.sent, c.adverts.messages, c.adverts.leases} {
		ch <- d
	}
	for _, d := range slices.Concat(
		c.access.descs(), c.routes.descs(), c.failover.descs(),
		c.offload.descs(),
	) {
		ch <- d
	}
}

func (c *collector) Collect(ch chan<- prometheus.Metric) {
	c.offload.collect(ch, c.source)
	c.failover.collect(ch, c.source.Failover())
	c.adverts.collect(ch, c.source.Adverts())
	c.access.collect(ch, c.source)
	c.names.collect(ch, c.source.DNS64())
	c.routes.collect(ch, c.source)
	status, refused := c.source.Status(), 0.0
	if status.Refused != nil {
		refused = 1
	}
	ch <- prometheus.MustNewConstMetric(c.build, prometheus.GaugeValue, 1, status.Version)
	ch <- prometheus.MustNewConstMetric(c.refused, prometheus.GaugeValue, refused)
	if l := status.BlockList; l != nil {
		ch <- prometheus.MustNewConstMetric(c.listed, prometheus.GaugeValue, float64(l.Entries))
	}
}
