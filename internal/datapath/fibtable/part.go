package fibtable

import (
	"weft/internal/datapath"
)

// PartFib declares the route tables.
func Part() datapath.Part {
	return datapath.Part{
		Kinds:  []datapath.Kind{datapath.KindOf(Of, (Table).RouteTables, (Table).applyRouteTables)},
		Load:   sizeTables,
		Opened: func(d *datapath.Datapath) error { return Of(d).forgetLayout() },
	}
}
