// Package ingresstable is the typed tables of interfaces: their ingress entries, the
// devices below them, and the addresses that they answer for.
package ingresstable

import "weft/internal/datapath"

// Table is the tables of interfaces in a datapath.
type Table struct{ core *datapath.Datapath }

// Of returns the tables of a datapath.
func Of(d *datapath.Datapath) Table { return Table{d} }
