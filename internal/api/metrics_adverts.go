package api

import "github.com/prometheus/client_golang/prometheus"

// advertMetrics are those of the [ra.NAME] sections.
type advertMetrics struct {
	sent, messages, leases *prometheus.Desc
}

func newAdvertMetrics() advertMetrics {
	return advertMetrics{
		sent:     prometheus.NewDesc("weft_ra_total", "Router advertisements and solicitations of a link, by kind.", []string{"name", "kind"}, nil),
		messages: prometheus.NewDesc("weft_dhcpv6_messages_total", "DHCPv6 messages of a link, by what became of them.", []string{"name", "kind"}, nil),
		leases:   prometheus.NewDesc("weft_dhcpv6_leases", "Leases of a link, by kind.", []string{"name", "kind"}, nil),
	}
}

func (m advertMetrics) collect(ch chan<- prometheus.Metric, list []Advert) {
	counter := func(d *prometheus.Desc, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	for _, a := range list {
		counter(m.sent, a.Stats.Sent, a.Name, "sent")
		counter(m.sent, a.Stats.Answered, a.Name, "answered")
		counter(m.sent, a.Stats.Solicited, a.Name, "solicited")
		counter(m.sent, a.Stats.Ignored, a.Name, "ignored")
		counter(m.sent, a.Stats.Others, a.Name, "others")
		if a.DHCP == nil {
			continue
		}
		counter(m.messages, a.DHCP.Received, a.Name, "received")
		counter(m.messages, a.DHCP.Answered, a.Name, "answered")
		counter(m.messages, a.DHCP.Discarded, a.Name, "discarded")
		counter(m.messages, a.DHCP.Exhausted, a.Name, "exhausted")
		counter(m.messages, a.DHCP.Unkept, a.Name, "unkept")
		count := map[string]int{"address": 0, "prefix": 0}
		for _, l := range a.Leases {
			count[l.Kind]++
		}
		for kind, n := range count {
			ch <- prometheus.MustNewConstMetric(m.leases, prometheus.GaugeValue, float64(n), a.Name, kind)
		}
	}
}
