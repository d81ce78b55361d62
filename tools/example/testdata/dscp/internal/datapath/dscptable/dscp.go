// Package dscptable is the typed table of feature dscp: the packets that were dropped, by
// interface and DSCP.
package dscptable

import "weft/internal/datapath"

// Table is the table in a datapath.
type Table struct{ core *datapath.Datapath }

// Of gives that of a datapath.
func Of(d *datapath.Datapath) Table { return Table{d} }

// Drops is the number of packets with one DSCP that were dropped on one interface.
type Drops struct {
	Device  string
	DSCP    int
	Packets uint64
}

// Drops reads the table.
func (t Table) Drops() ([]Drops, error) {
	return datapath.Collect(t.core, "dscp_drops", func(key uint64, perCPU []uint64) Drops {
		return Drops{datapath.DeviceName(int(key >> dscpBits)), int(key & (1<<dscpBits - 1)), datapath.Sum(perCPU)}
	})
}
