package ra

import (
	"weft/internal/config"
	"weft/internal/feature"
	"weft/internal/state"
)

// Feature declares router advertisements (RFC 4861) and DHCPv6 with prefix
// delegation (RFC 8415).
var Feature = feature.Feature{
	Name:     "ra",
	Sections: []config.Section{Section()},
	Offers:   func(f *config.File, facts *state.Facts) { facts.Delegated = Delegated(f) },
	Plan:     Plan,
	Nouns:    Nouns(),
}
