// Package flowtable is the typed tables of offloaded and refused flows.
package flowtable

import "weft/internal/datapath"

// Table is the tables of flows in a datapath.
type Table struct{ core *datapath.Datapath }

// Of returns the tables of a datapath.
func Of(d *datapath.Datapath) Table { return Table{d} }
