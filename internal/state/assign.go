package state

import "crypto/sha256"

// AssignIDs gives each name a number for the datapath: the one in use, so that a
// reload moves nothing that stays, or else the lowest that is free. full are the
// names that find none below most.
func AssignIDs(names []string, inUse map[string]int, most int) (ids map[string]int, full []string) {
	ids = map[string]int{}
	taken := map[int]bool{}
	for _, name := range names {
		if id, ok := inUse[name]; ok && !taken[id] {
			ids[name], taken[id] = id, true
		}
	}
	next := 0
	for _, name := range names {
		if _, ok := ids[name]; ok {
			continue
		}
		for taken[next] {
			next++
		}
		if next >= most {
			full = append(full, name)
			continue
		}
		ids[name], taken[next] = next, true
	}
	return ids, full
}

// ShortName is a section's name as the datapath keeps it.
func ShortName(name string) string { return name[:min(len(name), 15)] }

// DeviceMAC gives a device the same locally administered address each time.
func DeviceMAC(device string) [6]byte { return StableMAC("weft device " + device) }

// StableMAC gives a locally administered address that a text alone decides.
func StableMAC(text string) [6]byte {
	sum := sha256.Sum256([]byte(text))
	return [6]byte{0x02, sum[0], sum[1], sum[2], sum[3], sum[4]}
}
