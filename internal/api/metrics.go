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

	"weft/internal/datapath"
)

// ServeMetrics serves Prometheus at /metrics until ctx ends.
func ServeMetrics(ctx context.Context, address string, d *datapath.Datapath, source Source) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listen for Prometheus on %s: %w", address, err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(newCollector(d, source), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	serveHTTP(ctx, listener, mux)
	return nil
}

type collector struct {
	datapath *datapath.Datapath
	source   Source
	packets  *prometheus.Desc
	carried  *prometheus.Desc
	bytes    *prometheus.Desc
	build    *prometheus.Desc
	refused  *prometheus.Desc
	listed   *prometheus.Desc
	names    nameMetrics
	adverts  advertMetrics
	bindings bindingMetrics
	wires    wireMetrics
	access   accessMetrics
	offload  offloadMetrics
	routes   routeMetrics
	failover failoverMetrics
	bridges  bridgeMetrics
}

func newCollector(d *datapath.Datapath, source Source) *collector {
	return &collector{
		datapath: d, source: source,
		packets: prometheus.NewDesc("weft_packets_total", "Packets by the program that decided on them and what it decided.", []string{"program", "verdict", "outcome"}, nil),
		carried: prometheus.NewDesc("weft_nat64_packets_total", "Packets that a translator carried.", []string{"translator", "direction"}, nil),
		bytes:   prometheus.NewDesc("weft_nat64_bytes_total", "Bytes of IP packets that a translator carried, as they left.", []string{"translator", "direction"}, nil),
		names:   newNameMetrics(),
		adverts: newAdvertMetrics(), bindings: newBindingMetrics(), offload: newOffloadMetrics(), access: newAccessMetrics(),
		bridges: newBridgeMetrics(), routes: newRouteMetrics(), failover: newFailoverMetrics(), wires: newWireMetrics(),
		build:   prometheus.NewDesc("weft_info", "Version of weft.", []string{"version"}, nil),
		refused: prometheus.NewDesc("weft_reload_refused", "1 while the last reload was refused, and the configuration in force is an older one.", nil, nil),
		listed:  prometheus.NewDesc("weft_block_list_entries", "Prefixes of the block list in force, exceptions and bogons among them.", nil, nil),
	}
}

func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.packets, c.carried, c.bytes, c.build, c.refused, c.listed, c.names.events, c.names.asked, c.names.cached, c.adverts.sent, c.adverts.messages, c.adverts.leases} {
		ch <- d
	}
	for _, d := range slices.Concat(
		c.bindings.descs(), c.access.descs(), c.routes.descs(), c.failover.descs(), c.bridges.descs(), c.wires.descs(),
		c.offload.descs(),
	) {
		ch <- d
	}
}

func (c *collector) Collect(ch chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	c.bindings.collect(ch, c.datapath)
	c.bindings.collectTold(ch, c.source.Collectors())
	c.wires.collect(ch, c.datapath)
	c.offload.collect(ch, c.source)
	c.failover.collect(ch, c.source.Failover())
	c.bridges.collect(ch, c.datapath)
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
	rows, err := Counters(c.datapath, c.source.SlowCounts())
	if err != nil {
		ch <- prometheus.NewInvalidMetric(c.packets, err)
		return
	}
	for _, r := range rows {
		counter(c.packets, r.Packets, r.Program, r.Verdict, r.Outcome)
	}
	translations, err := Translations(c.datapath)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(c.carried, err)
		return
	}
	for _, t := range translations {
		counter(c.carried, t.To4.Packets, t.Name, "6to4")
		counter(c.carried, t.To6.Packets, t.Name, "4to6")
		counter(c.bytes, t.To4.Bytes, t.Name, "6to4")
		counter(c.bytes, t.To6.Bytes, t.Name, "4to6")
	}
}
