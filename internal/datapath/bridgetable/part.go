package bridgetable

import (
	"weft/internal/datapath"
)

// Part declares the tables of bridges.
func Part() datapath.Part {
	return datapath.Part{Kinds: []datapath.Kind{
		datapath.KindFor(Of, (Table).observeBridgeGuards, (Table).applyBridgeGuard),
		datapath.KindOf(Of, (Table).stations, (Table).applyStation),
	}}
}
