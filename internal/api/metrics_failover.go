package api

import "github.com/prometheus/client_golang/prometheus"

// failoverMetrics are those of [failover].
type failoverMetrics struct {
	connected, behind, told, sent, trouble, stream *prometheus.Desc
}

func newFailoverMetrics() failoverMetrics {
	peer := []string{"peer"}
	return failoverMetrics{
		connected: prometheus.NewDesc("weft_failover_peer_connected", "Whether the peer's sessions are being read.", peer, nil),
		behind:    prometheus.NewDesc("weft_failover_peer_behind_messages", "Messages of the peer that wait to be read.", peer, nil),
		told:      prometheus.NewDesc("weft_failover_received_total", "What a peer told, by what became of it.", []string{"peer", "result"}, nil),
		sent:      prometheus.NewDesc("weft_failover_sent_total", "What was told to others.", []string{"kind"}, nil),
		trouble:   prometheus.NewDesc("weft_failover_trouble_total", "What could not be told at once; a listing of all followed.", []string{"kind"}, nil),
		stream:    prometheus.NewDesc("weft_failover_stream_bytes", "Size of this router's own stream.", nil, nil),
	}
}

func (m failoverMetrics) descs() []*prometheus.Desc {
	return []*prometheus.Desc{m.connected, m.behind, m.told, m.sent, m.trouble, m.stream}
}

// collect sends what there is of f, which may be nil.
func (m failoverMetrics) collect(ch chan<- prometheus.Metric, f *Failover) {
	if f == nil {
		return
	}
	counter := func(d *prometheus.Desc, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, p := range f.Peers {
		connected := 0.0
		if p.Connected {
			connected = 1
		}
		gauge(m.connected, connected, p.Peer)
		gauge(m.behind, float64(p.Behind), p.Peer)
		for result, n := range map[string]uint64{
			"made": p.Made, "renewed": p.Renewed, "ended": p.Ended, "kept": p.Kept, "conflict": p.Conflicts,
			"no-room": p.NoRoom, "disturbed": p.Disturbed, "foreign": p.Foreign, "swept": p.Swept,
		} {
			counter(m.told, n, p.Peer, result)
		}
	}
	counter(m.sent, f.Sent.Messages, "messages")
	counter(m.sent, f.Sent.Sessions, "sessions")
	counter(m.sent, f.Sent.Bytes, "bytes")
	counter(m.sent, f.Sent.Listings, "listings")
	counter(m.trouble, f.Sent.Lost, "lost")
	counter(m.trouble, f.Sent.Unsent, "unsent")
	gauge(m.stream, float64(f.Stream.Bytes))
}
