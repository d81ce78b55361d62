package sessionsync

import (
	"weft/internal/config"
	"weft/internal/feature"
	"weft/internal/state"
)

// Feature declares that routers share the sessions of stateful translators.
var Feature = feature.Feature{
	Name:     "session_sync",
	Sections: []config.Section{Section()},
	Offers:   func(f *config.File, facts *state.Facts) { facts.Shared = Shared(f, facts.Sharable) },
	Plan: func(f *config.File, facts state.Facts) state.Part {
		return state.Part{Feature: "session_sync", Problems: Plan(f, facts.Sharable)}
	},
	Nouns: Nouns(),
}
