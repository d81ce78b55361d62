package schedule

import (
	"fmt"
	"slices"
	"strings"
)

// Routers returns the names of the path choices, in the order of the docs.
func Routers() []string {
	return []string{"lowrtt", "roundrobin", "weighted", "redundant", "daps", "blest", "ecf", "mptcp"}
}

// Orders returns the names of the stream choices.
func Orders() []string {
	return []string{"turns", "fifo", "shortest", "fair", "priority"}
}

// New makes a scheduler of a name: a path choice ("ecf", whose streams are
// served in turns), a stream choice ("shortest", whose packets go by lowrtt),
// or both ("shortest+ecf").
func New(name string) (Scheduler, error) {
	order, router := "turns", "lowrtt"
	first, second, both := strings.Cut(name, "+")
	switch {
	case both:
		order, router = first, second
	case slices.Contains(Orders(), name):
		order = name
	default:
		router = name
	}
	p := Pair{Order: newOrder(order), Router: newRouter(router)}
	if p.Order == nil || p.Router == nil {
		return nil, fmt.Errorf("no scheduler is called %q: paths are chosen by %s, streams by %s, and ORDER+PATHS names both",
			name, strings.Join(Routers(), ", "), strings.Join(Orders(), ", "))
	}
	return p, nil
}

func newRouter(name string) Router {
	switch name {
	case "lowrtt":
		return LowRTT{}
	case "roundrobin":
		return &RoundRobin{}
	case "weighted":
		return &WeightedRoundRobin{}
	case "redundant":
		return Redundant{}
	case "daps":
		return DAPS{}
	case "blest":
		return &BLEST{}
	case "mptcp":
		return &MPTCP{}
	case "ecf":
		return &ECF{}
	}
	return nil
}

func newOrder(name string) Order {
	switch name {
	case "turns":
		return Turns{}
	case "fifo":
		return FIFO{}
	case "shortest":
		return Shortest{}
	case "fair":
		return &Fair{}
	case "priority":
		return &Priority{}
	}
	return nil
}
