package api

import (
	"github.com/prometheus/client_golang/prometheus"

	"weft/internal/datapath"
	"weft/internal/state"
)

// bindingMetrics are those of stateful translators.
type bindingMetrics struct {
	bindings, sessions, made, opened *prometheus.Desc
	subscribers, refused, top, lost  *prometheus.Desc
	told, waiting, reached           *prometheus.Desc
}

func newBindingMetrics() bindingMetrics {
	labels := []string{"translator", "protocol"}
	return bindingMetrics{
		bindings: prometheus.NewDesc("weft_nat64_bindings", "Ports that are bound now.", labels, nil),
		sessions: prometheus.NewDesc("weft_nat64_sessions", "Sessions that there are now.", labels, nil),
		made:     prometheus.NewDesc("weft_nat64_bindings_made_total", "Ports that have been bound.", labels, nil),
		opened:   prometheus.NewDesc("weft_nat64_sessions_made_total", "Sessions that have been opened.", labels, nil),
		// few series, however many subscribers there are
		subscribers: prometheus.NewDesc("weft_nat64_subscribers", "Subscribers that hold something now.", labels[:1], nil),
		refused:     prometheus.NewDesc("weft_nat64_subscribers_refused", "Of those, the ones that have met a limit.", labels[:1], nil),
		top:         prometheus.NewDesc("weft_nat64_subscriber_most_sessions", "Sessions of the subscriber that has the most.", labels[:1], nil),
		lost:        prometheus.NewDesc("weft_nat64_events_lost_total", "Bindings that were made or ended too fast for the log of allocations.", nil, nil),
		told:        prometheus.NewDesc("weft_nat64_syslog_messages_total", "Messages for a collector of allocations: sent, or lost because it was away too long.", []string{"collector", "result"}, nil),
		waiting:     prometheus.NewDesc("weft_nat64_syslog_waiting", "Messages that wait for the collector.", []string{"collector"}, nil),
		reached:     prometheus.NewDesc("weft_nat64_syslog_reached", "0: the collector cannot be reached now.", []string{"collector"}, nil),
	}
}

func (m bindingMetrics) descs() []*prometheus.Desc {
	return []*prometheus.Desc{m.bindings, m.sessions, m.made, m.opened, m.subscribers, m.refused, m.top, m.lost, m.told, m.waiting, m.reached}
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
	m.collectSubscribers(ch, d)
	if lost, err := d.LogEventsLost(); err == nil {
		ch <- prometheus.MustNewConstMetric(m.lost, prometheus.CounterValue, float64(lost))
	}
}

// collectTold tells of collectors.
func (m bindingMetrics) collectTold(ch chan<- prometheus.Metric, list []Collector) {
	for _, c := range list {
		reached := 0.0
		if c.Reached {
			reached = 1
		}
		ch <- prometheus.MustNewConstMetric(m.told, prometheus.CounterValue, float64(c.Sent), c.Address, "sent")
		ch <- prometheus.MustNewConstMetric(m.told, prometheus.CounterValue, float64(c.Lost), c.Address, "lost")
		ch <- prometheus.MustNewConstMetric(m.waiting, prometheus.GaugeValue, float64(c.Waiting), c.Address)
		ch <- prometheus.MustNewConstMetric(m.reached, prometheus.GaugeValue, reached, c.Address)
	}
}

func (m bindingMetrics) collectSubscribers(ch chan<- prometheus.Metric, d *datapath.Datapath) {
	rows, err := NATSubscribers(d, BindingFilter{})
	if err != nil {
		ch <- prometheus.NewInvalidMetric(m.subscribers, err)
		return
	}
	all, refused, most := map[string]int{}, map[string]int{}, map[string]int{}
	for _, r := range rows {
		all[r.Translator]++
		most[r.Translator] = max(most[r.Translator], r.Sessions)
		if r.Refused > 0 {
			refused[r.Translator]++
		}
	}
	for name, n := range all {
		ch <- prometheus.MustNewConstMetric(m.subscribers, prometheus.GaugeValue, float64(n), name)
		ch <- prometheus.MustNewConstMetric(m.refused, prometheus.GaugeValue, float64(refused[name]), name)
		ch <- prometheus.MustNewConstMetric(m.top, prometheus.GaugeValue, float64(most[name]), name)
	}
}
