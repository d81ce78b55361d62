package state

import "crypto/sha256"

// AssignIDs assigns each name a number for the datapath: the current one, so that a
// reload renumbers nothing, or else the lowest free one. full are the names for
// which none below most is free.
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

// DeviceMAC derives a locally administered address from a device's name.
func DeviceMAC(device string) [6]byte { return StableMAC("weft device " + device) }

// StableMAC derives a locally administered address from a text.
func StableMAC(text string) [6]byte {
	sum := sha256.Sum256([]byte(text))
	return [6]byte{0x02, sum[0], sum[1], sum[2], sum[3], sum[4]}
}
