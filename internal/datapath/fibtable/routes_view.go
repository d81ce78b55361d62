package fibtable

import (
	"weft/internal/state"
)

// Entries lists the neighbours that next hops of this generation lead to.
func (r *Routes) Entries() ([]state.NeighbourEntry, error) {
	first, end := r.Range()
	var list []state.NeighbourEntry
	for n := first; n < end; n++ {
		hop := r.Nexthop(n)
		if hop.Kind != state.NexthopNeighbour {
			continue
		}
		e, err := r.NeighbourAt(hop.Index)
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}
