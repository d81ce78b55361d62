// Package ingresstable is the typed tables of interfaces: what the programs know of
// them, of the devices below them, and of the addresses that they answer for.
package ingresstable

import "weft/internal/datapath"

// Table is the tables of interfaces in a datapath.
type Table struct{ core *datapath.Datapath }

// Of gives those of a datapath.
func Of(d *datapath.Datapath) Table { return Table{d} }
