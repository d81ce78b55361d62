package api

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// toldCollector is the part of the collector that tells of collectors of logs.
type toldCollector struct {
	bindingMetrics
	list []Collector
}

func (c toldCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs() {
		ch <- d
	}
}

func (c toldCollector) Collect(ch chan<- prometheus.Metric) { c.collectTold(ch, c.list) }

// What becomes of messages for collectors can be watched.
func TestCollectorsOfAllocationsAreMeasured(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(toldCollector{newBindingMetrics(), []Collector{
		{Address: "tls://192.0.2.5:6514", Sent: 7, Lost: 3, Waiting: 2}, {Address: "udp://192.0.2.6:514", Reached: true},
	}})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			key := strings.TrimPrefix(f.GetName(), "weft_nat64_syslog_")
			for _, l := range m.Label {
				key += " " + l.GetValue()
			}
			got[key] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	for key, want := range map[string]float64{
		"messages_total tls://192.0.2.5:6514 sent": 7, "messages_total tls://192.0.2.5:6514 lost": 3,
		"waiting tls://192.0.2.5:6514": 2, "reached tls://192.0.2.5:6514": 0,
		"reached udp://192.0.2.6:514": 1, "messages_total udp://192.0.2.6:514 sent": 0,
	} {
		if v, ok := got[key]; !ok || v != want {
			t.Errorf("%s is %v, want %v (%v)", key, v, want, got)
		}
	}
}
