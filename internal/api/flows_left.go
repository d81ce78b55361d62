package api

import (
	"net/netip"

	"weft/internal/feature/offload"
)

// FlowsLeft gives rows of flows that stayed with the stack, why, and what to do.
// Those that rows has already, as not offloaded any more, are told of there.
func FlowsLeft(rows []Flow, left []offload.LeftFlow, f FlowFilter) []Flow {
	type key struct {
		protocol string
		from, to netip.AddrPort
	}
	known := map[key]int{}
	for i, r := range rows {
		known[key{r.Protocol, r.NewFrom, r.NewTo}] = i
	}
	var list []Flow
	for _, l := range left {
		if i, there := known[key{l.Protocol, l.NewFrom, l.NewTo}]; there {
			if rows[i].State != StateOffloaded {
				rows[i].Why, rows[i].Remedy = string(l.Why), l.Remedy
			}
			continue
		}
		row := Flow{
			Protocol: l.Protocol, In: deviceName(l.Interface), Out: "", From: l.From, To: l.To, NewFrom: l.NewFrom, NewTo: l.NewTo,
			Idle: l.Seconds, State: StateStack, Why: string(l.Why), Remedy: l.Remedy,
		}
		if !row.From.IsValid() { // before NAT is not known
			row.From, row.To = l.NewFrom, l.NewTo
		}
		if f.picks(row) {
			list = append(list, row)
		}
	}
	return list
}
