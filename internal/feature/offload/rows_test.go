package offload

import (
	"net/netip"
	"strings"
	"testing"

	"weft/internal/noun"
)

func TestFlowsThatAreLeftAreToldOnce(t *testing.T) {
	at := netip.MustParseAddrPort
	rows := []FlowRow{
		{Protocol: "udp", From: at("10.0.0.2:1"), To: at("192.0.2.9:53"), NewFrom: at("198.51.100.1:1"), NewTo: at("192.0.2.9:53"), State: StateStale},
		{Protocol: "udp", From: at("10.0.0.2:2"), To: at("192.0.2.9:53"), NewFrom: at("198.51.100.1:2"), NewTo: at("192.0.2.9:53"), State: StateOffloaded},
	}
	left := func(port string) LeftFlow {
		return LeftFlow{Protocol: "udp", NewFrom: at("198.51.100.1:" + port), NewTo: at("192.0.2.9:53"), Why: WhyRoute, Remedy: "x"}
	}
	three := left("3")
	three.From, three.To = at("10.0.0.3:3"), at("192.0.2.9:53")
	device := func(uint32) string { return "-" }
	got := flowsLeft(rows, []LeftFlow{left("1"), left("2"), three, left("4")}, flowFilter{}, device)
	if len(got) != 2 || got[0].From != at("10.0.0.3:3") || got[1].From != at("198.51.100.1:4") || got[1].State != StateStack {
		t.Errorf("%+v", got)
	}
	if rows[0].Why == "" || rows[1].Why != "" {
		t.Errorf("%+v", rows)
	}
	member := flowFilter{address: netip.MustParsePrefix("10.0.0.0/8")}
	if got := flowsLeft(nil, []LeftFlow{three, left("4")}, member, device); len(got) != 1 || got[0].From != at("10.0.0.3:3") {
		t.Errorf("of members: %+v", got)
	}
}

// oneDevice is a host with one device.
type oneDevice struct {
	FlowSource
	name string
}

func (d oneDevice) HasDevice(name string) bool { return name == d.name }

func TestWhatFlowsAreAskedForIsRead(t *testing.T) {
	for _, c := range []struct {
		name  string
		asked map[string]string
		want  string // in the error; "" for none
	}{
		{"nothing", nil, ""},
		{"all of it", map[string]string{"protocol": "tcp", "address": "192.0.2.0/24", "state": "stack", "in": "lo", "limit": "3"}, ""},
		{"a protocol that is not offloaded", map[string]string{"protocol": "sctp"}, `--protocol "sctp" is none of tcp, udp and icmp`},
		{"a state that is none", map[string]string{"state": "new"}, `--state "new" is none of offloaded, ending, stale and stack`},
		{"a device that is not there", map[string]string{"in": "nowhere0"}, "--in nowhere0: no such device"},
		{"fewer rows than none", map[string]string{"limit": "-1"}, "--limit -1 "},
		{"no address", map[string]string{"address": "everybody"}, "--address"},
	} {
		t.Run(c.name, func(t *testing.T) {
			q, err := noun.NewQuery(flowArgs(), c.asked)
			if err == nil {
				_, err = readFilter(q, oneDevice{name: "lo"}, true)
			}
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
