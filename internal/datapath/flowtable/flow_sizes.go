package flowtable

// flowsEntered limits the flows of PPP sessions between a PPP device and the device
// below, where packets stay only for a moment.
const flowsEntered = 4096

// flowMaps are the maps of offload whose size depends on the number of flows.
func flowMaps() []string {
	return []string{"flow_lines4", "flow_lines6", "flow_index", "flow_passes", "flow_events", "flow_early_drops", "flow_entered"}
}
