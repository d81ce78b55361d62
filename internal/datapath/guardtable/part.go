package guardtable

import (
	"weft/internal/datapath"
)

// PartGuard declares the tables of guards.
func Part() datapath.Part {
	return datapath.Part{Kinds: []datapath.Kind{datapath.KindOf(Of, (Table).Guards, (Table).writeGuard)}}
}
