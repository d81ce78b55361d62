package offload

import (
	"net/netip"
	"slices"

	"github.com/gaissmai/bart"

	"weft/internal/state"
)

// askedRoutes remembers what the kernel said of routes, until it says that
// they changed.
type askedRoutes struct {
	ways map[state.FlowAsk]state.FlowPath
	to   bart.Table[[]state.FlowAsk] // by the addresses that were asked about
}

// askedMax bounds what is remembered.
const askedMax = 1 << 17

func (r *askedRoutes) get(a state.FlowAsk) (state.FlowPath, bool) {
	w, known := r.ways[a]
	return w, known
}

func (r *askedRoutes) put(a state.FlowAsk, w state.FlowPath) {
	if r.ways == nil {
		r.ways = map[state.FlowAsk]state.FlowPath{}
	}
	_, known := r.ways[a]
	r.ways[a] = w
	if known {
		return
	}
	for _, p := range a.Prefixes() {
		r.to.Modify(p, func(list []state.FlowAsk, _ bool) ([]state.FlowAsk, bool) { return append(list, a), false })
	}
}

func (r *askedRoutes) clear() { *r = askedRoutes{} }

// room forgets all if so many more would be too many.
func (r *askedRoutes) room(more int) {
	if len(r.ways)+more > askedMax {
		r.clear()
	}
}

// forget drops what was said of addresses in a prefix.
func (r *askedRoutes) forget(p netip.Prefix) {
	var list []state.FlowAsk
	for _, some := range r.to.Subnets(p) {
		list = append(list, some...)
	}
	for _, a := range list {
		delete(r.ways, a)
		for _, q := range a.Prefixes() {
			r.to.Modify(q, func(list []state.FlowAsk, _ bool) ([]state.FlowAsk, bool) {
				list = slices.DeleteFunc(list, func(b state.FlowAsk) bool { return a == b })
				return list, len(list) == 0
			})
		}
	}
}
