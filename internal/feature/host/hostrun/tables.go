// Package hostrun is the half of the router's own sections that touches the system.
package hostrun

import (
	"weft/internal/datapath"
	"weft/internal/datapath/ingresstable"
	"weft/internal/datapath/nat64table"
	"weft/internal/feature/host"
	"weft/internal/kernel"
	"weft/internal/runner"
	"weft/internal/state"
)

// Tables are what the nouns of the router itself are read from.
type Tables struct {
	*datapath.Datapath
	Kernel *kernel.Kernel
}

// Source returns what the nouns of the maps are read from.
func Source(d runner.Doors) any { return Tables{Datapath: d.Datapath, Kernel: d.Kernel} }

// Links lists the devices.
func (t Tables) Links() ([]state.LinkFact, error) { return t.Kernel.Links() }

// Counters returns what the programs count.
func (t Tables) Counters() (rows []host.Counter, err error) {
	counts, err := t.Counts()
	for _, c := range counts {
		rows = append(rows, host.NewCounter(c.Program, c.Outcome, c.Packets))
	}
	return rows, err
}

// Ports lists what the programs know of interfaces.
func (t Tables) Ports() ([]state.IngressEntry, error) { return ingresstable.Of(t.Datapath).Ports() }

// Translators lists the translators, whose devices carry programs too.
func (t Tables) Translators() ([]state.Translator, error) {
	return nat64table.Of(t.Datapath).Translators()
}
