package offload

import (
	"maps"
	"time"

	"weft/internal/state"
)

// Status is the state of a service.
type Status struct {
	Connections int            `json:"connections"`        // with a flow at least
	Hops        int            `json:"hops"`               // ways out
	Taken       uint64         `json:"taken"`              // flows that were offloaded, since the start
	Generation  uint32         `json:"generation"`         // counted up when rules or routes change
	RouteEvents uint64         `json:"route_events"`       // changes of routes
	RouteHits   uint64         `json:"route_events_flows"` // those of them that took flows back
	Left        map[Why]uint64 `json:"left"`               // how often a flow stayed with the stack
	Untracked   bool           `json:"untracked"`          // no rule makes the kernel track connections
	Looking     bool           `json:"looking"`            // the ruleset is being looked at, or cannot be read
	Blocks      []Block        `json:"blocks"`             // rules that look at each packet
	Zones       []uint16       `json:"zones"`
	Refused     []EarlyDrop    `json:"early_drops"`       // flows that are dropped early now
	Refusals    uint64         `json:"early_drops_total"` // how many there were
	NotRefused  map[Why]uint64 `json:"not_early_dropped"` // refused packets whose flow was not dropped early
	Recent      []LeftFlow     `json:"recent"`            // some of those that stayed with the stack
}

// Health adds to the health of the service that the kernel tracks no connections, and the
// rules that keep all flows of a family with the stack. Those that keep only one protocol's
// are common, and no fault.
func (st Status) Health(service state.Health) []state.Health {
	if st.Untracked && st.Connections == 0 && service.Condition == state.Working {
		service.Condition, service.Because, service.Remedy = state.NotWorking, string(WhyNoTracking)+": no flow is offloaded", trackingRemedy
	}
	list := []state.Health{service}
	for _, b := range st.Blocks {
		if b.Protocol != 0 {
			continue
		}
		list = append(list, state.Health{
			Feature: "offload", Name: b.Rule, Condition: state.Degraded, Because: b.String(),
			Remedy: "put it after the rule that accepts established connections, or narrow it to a protocol",
		})
	}
	return list
}

// EarlyDrop is a flow that is dropped before the stack sees it.
type EarlyDrop struct {
	Flow      string `json:"flow"`
	Interface uint32 `json:"interface"`
	Rule      string `json:"rule"` // that refused it
}

// Status returns the state of the service; now is the clock of Offer.
func (s *Service) Status(now time.Duration) Status {
	st := Status{
		Connections: len(s.connections.list), Hops: len(s.hops.byKey), Taken: s.taken, RouteEvents: s.routeEvents, RouteHits: s.routeHits, Generation: s.ways.Generation(),
		Left: maps.Clone(s.counts), Untracked: s.policy.Untracked(), Looking: s.policy.Unknown, Blocks: append([]Block{}, s.policy.Blocks...), Zones: append([]uint16{}, s.policy.Zones...),
		Recent: s.leftFlows(now),
	}
	st.Refused, st.Refusals, st.NotRefused = []EarlyDrop{}, s.refused.taken, maps.Clone(s.refused.counts)
	for k, h := range s.refused.held {
		st.Refused = append(st.Refused, EarlyDrop{k.Tuple.String(), k.Interface, h.rule})
	}
	return st
}
