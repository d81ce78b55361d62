package pseudowire

import (
	"weft/internal/config"
	"weft/internal/feature"
	"weft/internal/state"
)

// Feature declares pseudowires: L2TPv3 (RFC 3931), Ethernet over GRE (RFC 2784,
// RFC 2890) and VXLAN (RFC 7348).
var Feature = feature.Feature{
	Name:     "pseudowire",
	Sections: []config.Section{Section()},
	Makes:    Devices,
	Asks:     func(f *config.File, q *state.Questions) { q.Pairs = append(q.Pairs, Pairs(f)...) },
	Plan:     Plan,
	Nouns:    Nouns(),
}
