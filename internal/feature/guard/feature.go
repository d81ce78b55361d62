package guard

import (
	"weft/internal/feature"
)

// Feature declares what is dropped at ingress (BCP 38, RFC 3704), and the block
// list.
var Feature = feature.Feature{
	Name:     "guard",
	Sections: Sections(),
	Plan:     Plan,
	Nouns:    Nouns(),
}
