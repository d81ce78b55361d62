package bridgetable

import (
	"weft/internal/datapath"
)

// PartBridge declares the tables of bridges.
func Part() datapath.Part {
	return datapath.Part{Kinds: []datapath.Kind{
		datapath.KindFor(Of, (Table).observeBridgeGuards, (Table).applyBridgeGuard),
		datapath.KindOf(Of, (Table).stations, (Table).applyStation),
	}}
}
