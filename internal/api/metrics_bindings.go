package api

import (
	"github.com/prometheus/client_golang/prometheus"

	"weft/internal/datapath"
	"weft/internal/state"
)

// bindingMetrics are those of stateful translators.
type bindingMetrics struct {
	bindings, sessions, made, opened *prometheus.Desc
}

func newBindingMetrics() bindingMetrics {
	labels := []string{"translator", "protocol"}
	return bindingMetrics{
		bindings: prometheus.NewDesc("weft_nat64_bindings", "Ports that are bound now.", labels, nil),
		sessions: prometheus.NewDesc("weft_nat64_sessions", "Sessions that there are now.", labels, nil),
		made:     prometheus.NewDesc("weft_nat64_bindings_made_total", "Ports that have been bound.", labels, nil),
		opened:   prometheus.NewDesc("weft_nat64_sessions_made_total", "Sessions that have been opened.", labels, nil),
	}
}

func (m bindingMetrics) descs() []*prometheus.Desc {
	return []*prometheus.Desc{m.bindings, m.sessions, m.made, m.opened}
}

func (m bindingMetrics) collect(ch chan<- prometheus.Metric, d *datapath.Datapath) {
	names, err := TranslatorNames(d)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(m.bindings, err)
		return
	}
	usages, err := d.Usages()
	if err != nil {
		ch <- prometheus.NewInvalidMetric(m.bindings, err)
		return
	}
	for _, u := range usages {
		labels := []string{names[u.Translator], state.ProtocolName(u.Protocol)}
		ch <- prometheus.MustNewConstMetric(m.bindings, prometheus.GaugeValue, float64(u.Bindings()), labels...)
		ch <- prometheus.MustNewConstMetric(m.sessions, prometheus.GaugeValue, float64(u.Sessions()), labels...)
		ch <- prometheus.MustNewConstMetric(m.made, prometheus.CounterValue, float64(u.BindingsMade), labels...)
		ch <- prometheus.MustNewConstMetric(m.opened, prometheus.CounterValue, float64(u.SessionsMade), labels...)
	}
}
