package datapath

import (
	"fmt"

	"weft/internal/state"
)

// Count is how many packets met one outcome in one program.
type Count struct {
	Program string        `json:"program"`
	Outcome state.Outcome `json:"-"`
	Packets uint64        `json:"packets"`
}

// Counts reads the counters that are not zero.
func (d *Datapath) Counts() ([]Count, error) {
	m, err := d.mapNamed("counters")
	if err != nil {
		return nil, err
	}
	var list []Count
	for i, name := range ProgramNames() {
		for o := range state.OutcomeCount {
			var perCPU []uint64
			if err := m.Lookup(uint32(i)*uint32(state.OutcomeCount)+uint32(o), &perCPU); err != nil {
				return nil, fmt.Errorf("read counter %s of %s: %w", o, name, err)
			}
			if n := sum(perCPU); n != 0 {
				list = append(list, Count{name, o, n})
			}
		}
	}
	return list, nil
}

func sum(perCPU []uint64) (n uint64) {
	for _, v := range perCPU {
		n += v
	}
	return n
}

// Volume is what a translator carried in one direction; bytes of IP packets
// as they left.
type Volume struct {
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`
}

// Volumes gives what translator id carried, IPv6 to IPv4 and back.
func (d *Datapath) Volumes(id int) (to4, to6 Volume, err error) {
	m, err := d.mapNamed("nat64_traffic")
	if err != nil {
		return to4, to6, err
	}
	for direction, into := range []*Volume{&to4, &to6} {
		var perCPU []volume
		if err := m.Lookup(uint32(2*id+direction), &perCPU); err != nil {
			return to4, to6, fmt.Errorf("read traffic of translator %d: %w", id, err)
		}
		for _, v := range perCPU {
			into.Packets += v.Packets
			into.Bytes += v.Bytes
		}
	}
	return to4, to6, nil
}
