package bridge

import (
	"weft/internal/config"
	"weft/internal/feature"
	"weft/internal/state"
)

// Feature declares bridges: IEEE 802.1Q bridges of the kernel with isolation,
// guards and limits.
var Feature = feature.Feature{
	Name:     "bridge",
	Sections: []config.Section{Section()},
	Makes:    Devices,
	Asks: func(f *config.File, q *state.Questions) {
		q.Sysctls = append(q.Sysctls, Watched(f)...)
		q.Accounts = append(q.Accounts, Openers(f)...)
		q.VLANs = q.VLANs || len(f.Names("bridge")) > 0
	},
	Plan:  Plan,
	Nouns: Nouns(),
}
