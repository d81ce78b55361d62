package uplink

import (
	"weft/internal/config"
	"weft/internal/feature"
)

// Feature is the declaration.
var Feature = feature.Feature{
	Name:     "uplink",
	Sections: []config.Section{Section()},
	Plan:     Plan,
	Nouns:    Nouns(),
}
