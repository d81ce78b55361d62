package api

import (
	"net/netip"
	"testing"

	"weft/internal/feature/offload"
)

func TestFlowsThatAreLeftAreToldOnce(t *testing.T) {
	at := netip.MustParseAddrPort
	rows := []Flow{
		{Protocol: "udp", From: at("10.0.0.2:1"), To: at("192.0.2.9:53"), NewFrom: at("198.51.100.1:1"), NewTo: at("192.0.2.9:53"), State: StateStale},
		{Protocol: "udp", From: at("10.0.0.2:2"), To: at("192.0.2.9:53"), NewFrom: at("198.51.100.1:2"), NewTo: at("192.0.2.9:53"), State: StateOffloaded},
	}
	left := func(port string) offload.LeftFlow {
		return offload.LeftFlow{Protocol: "udp", NewFrom: at("198.51.100.1:" + port), NewTo: at("192.0.2.9:53"), Why: offload.WhyRoute, Remedy: "x"}
	}
	three := left("3")
	three.From, three.To = at("10.0.0.3:3"), at("192.0.2.9:53")
	got := FlowsLeft(rows, []offload.LeftFlow{left("1"), left("2"), three, left("4")}, FlowFilter{})
	if len(got) != 2 || got[0].From != at("10.0.0.3:3") || got[1].From != at("198.51.100.1:4") || got[1].State != StateStack {
		t.Errorf("%+v", got)
	}
	if rows[0].Why == "" || rows[1].Why != "" {
		t.Errorf("%+v", rows)
	}
	member := FlowFilter{Address: netip.MustParsePrefix("10.0.0.0/8")}
	if got := FlowsLeft(nil, []offload.LeftFlow{three, left("4")}, member); len(got) != 1 || got[0].From != at("10.0.0.3:3") {
		t.Errorf("of members: %+v", got)
	}
}
