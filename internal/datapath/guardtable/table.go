// Package guardtable is the typed tables of guards: which interfaces are guarded, and
// the list of sources.
package guardtable

import "weft/internal/datapath"

// Table is the tables of guards in a datapath.
type Table struct{ core *datapath.Datapath }

// Of returns the tables of a datapath.
func Of(d *datapath.Datapath) Table { return Table{d} }
