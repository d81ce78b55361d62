package pseudowiretable

import (
	"context"

	"weft/internal/datapath"
	"weft/internal/state"
)

// PartPseudowire declares the tables of pseudowires.
func Part() datapath.Part {
	var w pseudowires
	return datapath.Part{
		Kinds: []datapath.Kind{
			datapath.KindOf(Of, (Table).Pseudowires, func(d Table, p state.Pseudowire, remove bool) error { return w.of(d).writePseudowire(p, remove) }),
			datapath.KindOf(Of, (Table).PseudowirePorts, (Table).writePseudowirePort),
		},
		Together: func(ctx context.Context, d *datapath.Datapath, steps []state.Step) (int, error) {
			return w.of(Of(d)).together(ctx, steps)
		},
	}
}
