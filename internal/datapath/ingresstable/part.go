package ingresstable

import (
	"weft/internal/datapath"
	"weft/internal/state"
)

// PartIngress declares the tables of interfaces.
func Part() datapath.Part {
	return datapath.Part{
		Kinds: []datapath.Kind{
			datapath.KindOf(Of, (Table).Ports, (Table).writePort),
			datapath.KindOf(Of, (Table).lowers, (Table).writeLower),
			datapath.KindOf(Of, (Table).proxies, (Table).writeProxy),
		},
		Constants: func(t state.Tables) map[string]uint32 {
			return map[string]uint32{"interface_unused": unusedFlags(t.Unused), "dsa_format": uint32(t.Switch)}
		},
	}
}
