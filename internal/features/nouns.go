// Package features lists what the features have to show.
package features

import (
	"weft/internal/datapath"
	"weft/internal/feature/access"
	"weft/internal/feature/bridge"
	"weft/internal/feature/bridge/bridgerun"
	"weft/internal/feature/dns64"
	"weft/internal/feature/failover"
	"weft/internal/feature/guard"
	"weft/internal/feature/guard/guardrun"
	"weft/internal/feature/host"
	"weft/internal/feature/host/hostrun"
	"weft/internal/feature/nat64"
	"weft/internal/feature/nat64/nat64run"
	"weft/internal/feature/offload"
	"weft/internal/feature/offload/offloadrun"
	"weft/internal/feature/pseudowire"
	"weft/internal/feature/pseudowire/pseudowirerun"
	"weft/internal/feature/ra"
	"weft/internal/feature/route"
	"weft/internal/feature/route/routerun"
	"weft/internal/kernel"
	"weft/internal/noun"
	"weft/internal/paths"
)

// Doors are what the nouns of the pinned maps are read through. Without anything of weft's in the
// kernel there is no Datapath.
type Doors struct {
	Kernel   *kernel.Kernel
	Datapath *datapath.Datapath
	Dirs     paths.Dirs
}

// Shown is what a feature has to show.
type Shown struct {
	Feature string
	Nouns   []noun.Noun
	// Tables is what those nouns are read from that do not come from the daemon.
	Tables func(Doors) any
}

// plain reads a feature's rows from the typed tables as they are.
func plain(d Doors) any { return d.Datapath }

// AllShown lists what there is to show, in the order of weft show --help.
func AllShown() []Shown {
	return []Shown{
		{"host", host.Nouns(), func(d Doors) any { return hostrun.Tables{Datapath: d.Datapath, Kernel: d.Kernel} }},
		{"nat64", nat64.Nouns(), func(d Doors) any { return nat64run.Tables{Datapath: d.Datapath} }},
		{"bridge", bridge.Nouns(), func(d Doors) any { return bridgerun.Tables{Datapath: d.Datapath, Kernel: d.Kernel} }},
		{"pseudowire", pseudowire.Nouns(), func(d Doors) any { return pseudowirerun.Tables{Datapath: d.Datapath, Kernel: d.Kernel} }},
		{"route", route.Nouns(), func(d Doors) any { return routerun.Tables{Datapath: d.Datapath, Kernel: d.Kernel} }},
		{"offload", offload.Nouns(), func(d Doors) any { return offloadrun.Tables{Datapath: d.Datapath} }},
		{"dns64", dns64.Nouns(), plain},
		{"ra", ra.Nouns(), plain},
		{"failover", failover.Nouns(), plain},
		{"access", access.Nouns(), plain},
		{"guard", guard.Nouns(), func(d Doors) any { return guardrun.Tables{Datapath: d.Datapath, Dirs: d.Dirs} }},
	}
}

// Nouns lists the nouns of all features.
func Nouns() (list []noun.Noun) {
	for _, s := range AllShown() {
		list = append(list, s.Nouns...)
	}
	return list
}

// Sources gives what each noun's rows are read from: the maps, or what the daemon runs for the
// feature; nothing for a noun of the daemon if daemon is nil.
func Sources(d Doors, daemon map[string]any) func(name string) any {
	sources := map[string]any{}
	for _, s := range AllShown() {
		for n := range noun.All(s.Nouns) {
			if n.From == noun.Daemon {
				sources[n.Name] = daemon[s.Feature]
			} else {
				sources[n.Name] = s.Tables(d)
			}
		}
	}
	return func(name string) any { return sources[name] }
}
