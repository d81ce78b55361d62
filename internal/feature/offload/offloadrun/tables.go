// Package offloadrun is the half of offloading that touches the system.
package offloadrun

import (
	"net"

	"weft/internal/datapath"
	"weft/internal/datapath/flowtable"
	"weft/internal/feature/offload"
	"weft/internal/runner"
)

// Tables are what the nouns of offloading are read from.
type Tables struct{ Datapath *datapath.Datapath }

// Source gives what the nouns of the maps are read from.
func Source(d runner.Doors) any { return Tables{Datapath: d.Datapath} }

// View opens the tables of flows.
func (t Tables) View() (offload.FlowView, error) { return flowtable.Of(t.Datapath).ViewFlows() }

// DeviceName gives the name of a device by its index.
func (t Tables) DeviceName(index uint32) string {
	if dev, err := net.InterfaceByIndex(int(index)); err == nil {
		return dev.Name
	}
	return "-"
}

// HasDevice tells whether there is a device of that name.
func (t Tables) HasDevice(name string) bool {
	_, err := net.InterfaceByName(name)
	return err == nil
}
