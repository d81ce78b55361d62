// Package fibtable is the route tables, in the layout of package fib, and the next
// hops that they lead to.
package fibtable

import "weft/internal/datapath"

// Table is the tables of routes in a datapath.
type Table struct{ core *datapath.Datapath }

// Of returns the tables of a datapath.
func Of(d *datapath.Datapath) Table { return Table{d} }
