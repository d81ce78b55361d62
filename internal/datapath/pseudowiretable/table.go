// Package pseudowiretable is the typed tables of pseudowires over L2TPv3 (RFC 3931)
// and GRE (RFC 2784), and the programs on their hidden ends.
package pseudowiretable

import "weft/internal/datapath"

// Table is the tables of pseudowires in a datapath.
type Table struct{ core *datapath.Datapath }

// Of returns the tables of a datapath.
func Of(d *datapath.Datapath) Table { return Table{d} }
