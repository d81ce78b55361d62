package lns

import (
	"weft/internal/config"
	"weft/internal/feature"
	"weft/internal/state"
)

// Feature declares L2TP (RFC 2661) with PPP (RFC 1661): the LNS, tunnel switching as
// LAC, and the client.
var Feature = feature.Feature{
	Name:     "lns",
	Sections: []config.Section{Section(), ClientSection()},
	Sizes: func(f *config.File, t *state.Tables) {
		t.Subscribers = Tables(f).Subscribers
	},
	Makes: Made,
	Plan:  Plan,
	Nouns: Nouns(),
}
