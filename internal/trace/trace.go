// Package trace sends packets through the real programs, slow paths and kernel
// of a router that exists for the purpose only: in a network namespace and a
// mount namespace of its own, with a veth device for each interface of
// weft.toml. The namespaces belong to one process and nothing else, so nothing
// of them outlives it, however it ends.
//
//	outer process      reads the host (MACs, MTUs, routes), starts the inner one
//	inner process      namespace "near": the router
//	                   namespace "far": the other end of each device, where the
//	                   packets are sent and whatever leaves is caught
package trace

import (
	"context"
	"net/netip"

	"weft/internal/config"
	"weft/internal/datapath"
	"weft/internal/state"
)

// Via says which of the ways through weft the packets take; empty is the one
// that the configuration chooses.
type Via string

const (
	ViaConfig Via = ""
	ViaXDP    Via = "xdp"  // hook = "xdp" and bypass = true on every interface
	ViaTC     Via = "tc"   // hook = "tc" on every interface
	ViaSlow   Via = "slow" // what would be translated goes to the slow path
)

// Engine makes routers in the namespace of the process.
type Engine interface {
	Parse(file string, text []byte) (*config.File, []state.Problem)
	// Makes lists the devices that a router with f makes itself.
	Makes(f *config.File) []string
	// Ports lists the devices that are ports of bridges.
	Ports(f *config.File) []string
	// Start applies f; clock gives nanoseconds.
	Start(ctx context.Context, f *config.File, forceSlow bool, clock func() int64) (Router, error)
}

// Router is one that runs.
type Router interface {
	// Counts returns what the programs decided so far.
	Counts() ([]datapath.Count, error)
	// Slow returns what the slow paths decided so far, and how many packets
	// they are done with.
	Slow() (counts map[state.Outcome]uint64, served uint64)
	// Images returns the addresses that a translated packet may have in place of a.
	Images(a netip.Addr) []netip.Addr
	// Subscribe returns it sessions of subscribers.
	Subscribe(state.LNSTables) error
	// Follow has the programs know what the kernel says now of routes, and of
	// the ways to the other ends of tunnels.
	Follow(ctx context.Context) error
	Close() error
}
