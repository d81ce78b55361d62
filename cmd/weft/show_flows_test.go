package main

import (
	"strings"
	"testing"
)

func TestWhatFlowsAreAskedForIsRead(t *testing.T) {
	for _, c := range []struct {
		name  string
		asked flowsAsked
		want  string // in the error; "" for none
	}{
		{"nothing", flowsAsked{}, ""},
		{"all of it", flowsAsked{protocol: "tcp", address: "192.0.2.0/24", state: "stack", in: "lo", limit: 3}, ""},
		{"a protocol that is not offloaded", flowsAsked{protocol: "sctp"}, "--protocol sctp: tcp, udp and icmp are known"},
		{"a state that is none", flowsAsked{state: "new"}, "--state new: offloaded, ending, stale and stack are known"},
		{"a device that is not there", flowsAsked{in: "nowhere0"}, "--in nowhere0: there is no such device here"},
		{"fewer rows than none", flowsAsked{limit: -1}, "--limit -1: "},
		{"no address", flowsAsked{address: "everybody"}, "--address"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := c.asked.filter(true)
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestRatesHaveAFittingUnit(t *testing.T) {
	for rate, want := range map[float64]string{800: "1 kbit/s", 312_400: "312 kbit/s", 1.26e6: "1.3 Mbit/s", 98.76e6: "98.8 Mbit/s", 999.9e6: "1000 Mbit/s", 2.5e9: "2.5 Gbit/s"} {
		if got := measuredRate(rate); got != want {
			t.Errorf("%v bit/s: %s, want %s", rate, got, want)
		}
	}
}
