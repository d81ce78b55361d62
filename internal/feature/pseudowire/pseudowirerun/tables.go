// Package pseudowirerun is the half of pseudowires that touches the system.
package pseudowirerun

import (
	"weft/internal/datapath"
	"weft/internal/datapath/pseudowiretable"
	"weft/internal/feature/pseudowire"
	"weft/internal/kernel"
	"weft/internal/runner"
	"weft/internal/state"
)

// Tables are what the nouns of pseudowires are read from.
type Tables struct {
	Datapath *datapath.Datapath
	Kernel   *kernel.Kernel
}

// Source returns what the nouns of the maps are read from.
func Source(d runner.Doors) any { return Tables{Datapath: d.Datapath, Kernel: d.Kernel} }

func (t Tables) Pseudowires() ([]state.Pseudowire, error) {
	return pseudowiretable.Of(t.Datapath).Pseudowires()
}
func (t Tables) Paths() (map[state.Endpoints]state.PseudowirePath, error) {
	return pseudowiretable.Of(t.Datapath).Paths()
}
func (t Tables) Links() ([]state.LinkFact, error)    { return t.Kernel.Links() }
func (t Tables) VXLANs() ([]state.VXLANCount, error) { return t.Kernel.VXLANs() }
func (t Tables) Counts() (map[int]pseudowire.Counts, error) {
	counts, err := pseudowiretable.Of(t.Datapath).PseudowireCounts()
	out := map[int]pseudowire.Counts{}
	for index, c := range counts {
		out[index] = pseudowire.Counts(c)
	}
	return out, err
}
