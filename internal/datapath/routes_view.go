package datapath

import "weft/internal/state"

// DeviceName gives the name of the device with an index, or one like #12 if
// there is none.
func DeviceName(index int) string { return deviceName(index) }

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
