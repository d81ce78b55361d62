// Package offloadrun runs flow offload.
package offloadrun

import (
	"net"

	"weft/internal/datapath"
	"weft/internal/datapath/flowtable"
	"weft/internal/feature/offload"
	"weft/internal/runner"
)

// Tables are the sources of the nouns of flow offload.
type Tables struct{ Datapath *datapath.Datapath }

// Source returns what the nouns that read the maps need.
func Source(d runner.Doors) any { return Tables{Datapath: d.Datapath} }

// View opens the tables of flows.
func (t Tables) View() (offload.FlowView, error) { return flowtable.Of(t.Datapath).ViewFlows() }

// DeviceName is the name of the device with an index.
func (t Tables) DeviceName(index uint32) string {
	if dev, err := net.InterfaceByIndex(int(index)); err == nil {
		return dev.Name
	}
	return "-"
}

// HasDevice reports whether a device of that name exists.
func (t Tables) HasDevice(name string) bool {
	_, err := net.InterfaceByName(name)
	return err == nil
}
