package firewall

import "weft/internal/feature"

// Feature is the declaration.
var Feature = feature.Feature{
	Name:     "firewall",
	Sections: Sections(),
	Plan:     Plan,
	Nouns:    Nouns(),
}
