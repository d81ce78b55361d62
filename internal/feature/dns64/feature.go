package dns64

import (
	"weft/internal/config"
	"weft/internal/feature"
	"weft/internal/state"
)

// Feature declares the DNS64 name server (RFC 6147).
var Feature = feature.Feature{
	Name:     "dns64",
	Sections: []config.Section{Section()},
	Offers:   func(f *config.File, facts *state.Facts) { facts.NameServer = Interfaces(f) },
	Plan:     Plan,
	Nouns:    Nouns(),
}
