package datapath

import (
	"fmt"

	"weft/internal/state"
)

// Count is the number of packets with one outcome in one program.
type Count struct {
	Program string        `json:"program"`
	Outcome state.Outcome `json:"-"`
	Packets uint64        `json:"packets"`
}

// Counts reads the counters that are not zero.
func (d *Datapath) Counts() ([]Count, error) {
	m, err := d.Map("counters")
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
			if n := Sum(perCPU); n != 0 {
				list = append(list, Count{name, o, n})
			}
		}
	}
	return list, nil
}

func Sum(perCPU []uint64) (n uint64) {
	for _, v := range perCPU {
		n += v
	}
	return n
}
