package offload

import (
	"weft/internal/config"
	"weft/internal/feature"
	"weft/internal/state"
)

// Feature declares flow offload: established connections bypass the stack.
var Feature = feature.Feature{
	Name:     "offload",
	Sections: []config.Section{Section()},
	Sizes: func(f *config.File, t *state.Tables) {
		t.Flows, t.Switch = Flows(f), Switch(f)
	},
	Offers: func(f *config.File, facts *state.Facts) { facts.Switch = Switch(f) },
	Plan:   Plan,
	Audit:  Audit,
	Nouns:  Nouns(),
}
