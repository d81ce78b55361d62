package route

import (
	"weft/internal/config"
	"weft/internal/feature"
)

// Feature declares forwarding by weft's own copy of the kernel's route tables.
var Feature = feature.Feature{
	Name:     "route",
	Sections: []config.Section{Section()},
	Plan:     Plan,
	Nouns:    Nouns(),
}
