package subscribertable

import (
	"weft/internal/datapath"
	"weft/internal/state"
)

// PartSubscriber declares the tables of subscribers' sessions.
func Part() datapath.Part {
	return datapath.Part{
		Kinds: []datapath.Kind{
			datapath.KindOf(Of, (Table).LNSes, (Table).applyLNS),
			datapath.KindOf(Of, (Table).walledGardens, (Table).writeWalledGarden),
		},
		Groups: []datapath.Group{{Program: "lns_egress", Maps: lnsMaps()}},
		Entries: func(t state.Tables) map[string]uint32 {
			n, owners := uint32(max(t.Subscribers, 1)), uint32(max(4*t.Subscribers, 1))
			return map[string]uint32{
				"l2tp_tunnels": n, "l2tp_states": n,
				"l2tp_sessions": uint32(max((t.Subscribers+sessionGroup-1)/sessionGroup, 1)),
				"l2tp_lines":    ownerLinesFor(t.Subscribers),
				"l2tp_owners4":  owners, "l2tp_owners6": owners,
			}
		},
		Constants: func(t state.Tables) map[string]uint32 {
			return map[string]uint32{"l2tp_lines_mask": ownerLinesFor(t.Subscribers)/2 - 1}
		},
		Sizes: map[string]func(*state.Tables, int){"l2tp_states": func(t *state.Tables, n int) { t.Subscribers = n }},
	}
}
