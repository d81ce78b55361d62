package nat64

import (
	"strings"
	"testing"
)

type collectorList []Collector

func (l collectorList) Collectors() []Collector { return l }

// What becomes of messages for collectors can be watched.
func TestCollectorsOfAllocationsAreMeasured(t *testing.T) {
	got := map[string]float64{}
	err := collectors().Measure(t.Context(), collectorList{
		{Address: "tls://192.0.2.5:6514", Sent: 7, Lost: 3, Waiting: 2}, {Address: "udp://192.0.2.6:514", Reached: true},
	}, nil, func(metric string, v float64, labels ...string) {
		got[strings.Join(append([]string{strings.TrimPrefix(metric, "weft_nat64_syslog_")}, labels...), " ")] = v
	})
	if err != nil {
		t.Fatal(err)
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
