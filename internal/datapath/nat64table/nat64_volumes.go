package nat64table

import (
	"fmt"
)

// Volume is the traffic of a translator in one direction; bytes of IP packets as
// they left.
type Volume struct {
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`
}

// Volumes returns the traffic of translator id, IPv6 to IPv4 and back.
func (d Table) Volumes(id int) (to4, to6 Volume, err error) {
	m, err := d.core.Map("nat64_traffic")
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
