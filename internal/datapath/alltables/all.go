// Package alltables is the list of all typed tables, and opens a datapath with them.
package alltables

import (
	"weft/internal/datapath"
	"weft/internal/datapath/bridgetable"
	"weft/internal/datapath/fibtable"
	"weft/internal/datapath/flowtable"
	"weft/internal/datapath/guardtable"
	"weft/internal/datapath/ingresstable"
	"weft/internal/datapath/nat64table"
	"weft/internal/datapath/pseudowiretable"
	"weft/internal/datapath/subscribertable"
)

// All returns new typed tables of all features, for one datapath.
func All() []datapath.Part {
	return []datapath.Part{ingresstable.Part(), nat64table.Part(), fibtable.Part(), flowtable.Part(), subscribertable.Part(), pseudowiretable.Part(), guardtable.Part(), bridgetable.Part()}
}

// Open opens the datapath at a directory with all tables.
func Open(dir string, options datapath.Options) (*datapath.Datapath, error) {
	options.Parts = All()
	return datapath.Open(dir, options)
}

// View opens an existing datapath with all tables, read-only.
func View(dir string) (*datapath.Datapath, error) { return datapath.View(dir, All()) }
