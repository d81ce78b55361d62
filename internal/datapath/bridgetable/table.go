// Package bridgetable is the typed tables of bridges: their ports, and the source
// addresses behind these.
package bridgetable

import "weft/internal/datapath"

// Table is the tables of bridges in a datapath.
type Table struct{ core *datapath.Datapath }

// Of returns the tables of a datapath.
func Of(d *datapath.Datapath) Table { return Table{d} }
