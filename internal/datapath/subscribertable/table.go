// Package subscribertable is the typed tables of subscribers: L2TP tunnels and
// sessions (RFC 2661), their addresses, and the accesses that they come by.
package subscribertable

import "weft/internal/datapath"

// Table is the tables of subscribers in a datapath.
type Table struct{ core *datapath.Datapath }

// Of returns the tables of a datapath.
func Of(d *datapath.Datapath) Table { return Table{d} }
