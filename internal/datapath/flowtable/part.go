package flowtable

import (
	"weft/internal/datapath"
	"weft/internal/state"
)

// PartFlow declares the tables of offloaded flows.
func Part() datapath.Part {
	return datapath.Part{
		Groups: []datapath.Group{{Program: "flow_egress", Maps: flowMaps()}},
		Entries: func(t state.Tables) map[string]uint32 {
			return map[string]uint32{
				"flow_early_drops": flowRefusals(t.Flows),
				"flow_passes":      uint32(max(t.Flows, 1)),
				"flow_entered":     uint32(min(flowsEntered, max(t.Flows, 1))),
				"flow_lines4":      flowLines(t.Flows),
				"flow_lines6":      flowLines(t.Flows),
				"flow_index":       families * flowBuckets(t.Flows),
				"flow_events":      flowEventBytes(t.Flows),
			}
		},
		Constants: func(t state.Tables) map[string]uint32 {
			return map[string]uint32{"flow_buckets": flowBuckets(t.Flows)}
		},
		Sizes: map[string]func(*state.Tables, int){"flow_passes": func(t *state.Tables, n int) { t.Flows = n }},
	}
}
