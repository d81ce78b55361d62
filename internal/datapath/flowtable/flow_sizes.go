package flowtable

// flowsEntered bounds the flows of PPP sessions that are on their way from one
// device to the one below, which is at once.
const flowsEntered = 4096

// flowMaps are those of offload that grow with its table.
func flowMaps() []string {
	return []string{"flow_lines4", "flow_lines6", "flow_index", "flow_passes", "flow_events", "flow_refusals", "flow_entered"}
}
