package nat64table

import (
	"github.com/cilium/ebpf"

	"weft/internal/datapath"
	"weft/internal/state"
)

// PartNat64 declares the tables of translators.
func Part() datapath.Part {
	return datapath.Part{
		Kinds: []datapath.Kind{
			datapath.KindOf(Of, (Table).Translators, (Table).writeTranslator),
			datapath.KindOf(Of, (Table).Allocators, (Table).writeAllocator),
			datapath.KindOf(Of, (Table).Statics, (Table).writeStatic),
			datapath.KindOf(Of, (Table).Rules, (Table).writeRule),
		},
		Groups: []datapath.Group{{Program: "nat64_resolve", Maps: stateMaps()}, {Program: "nat64_resolve", Maps: []string{"nat64_changes"}}},
		Entries: func(t state.Tables) map[string]uint32 {
			bindings, sessions := uint32(max(t.Bindings, 1)), uint32(max(t.Sessions, 1))
			n := map[string]uint32{
				"nat64_bib6": bindings, "nat64_bib4": bindings, "nat64_subscribers": bindings,
				"nat64_sessions": sessions, "nat64_slots": sessions, "nat64_slots_free": sessions, "nat64_peers": sessions,
				fastSets: fastFragments(t),
			}
			if t.Sessions > 0 {
				n["nat64_log_events"], n["nat64_changes"] = ringSize, changesBytes
			}
			return n
		},
		Constants: fastConstants,
		Sizes: map[string]func(*state.Tables, int){
			"nat64_bib6":     func(t *state.Tables, n int) { t.Bindings = n },
			"nat64_sessions": func(t *state.Tables, n int) { t.Sessions = n },
		},
		Fill: map[string]func(*ebpf.Map, *ebpf.MapSpec) error{
			fastSets: func(m *ebpf.Map, spec *ebpf.MapSpec) error { return fillFast(m, spec.InnerMap) },
		},
		Opened:  func(d *datapath.Datapath) error { return Of(d).startSweep() },
		Resized: func(d *datapath.Datapath) error { return Of(d).startSweep() },
	}
}
