// Package feature says what a capability of weft is. It is pure: a feature
// declares here what the planner, the command line and the documentation need
// to know of it. What it does to the machine is its runner's (internal/runner).
package feature

import (
	"weft/internal/config"
	"weft/internal/noun"
	"weft/internal/state"
)

// Feature is one capability. A field that a feature does not need is nil.
type Feature struct {
	Name     string
	Sections []config.Section
	// Sizes adds how large the datapath's tables must be, before anything is
	// opened.
	Sizes func(*config.File, *state.Tables)
	// Makes lists the devices that weft makes itself for the feature.
	Makes func(*config.File) []string
	// Asks adds what the feature must know of the host to be planned.
	Asks func(*config.File, *state.Questions)
	// Offers adds what the feature's sections say to other features.
	Offers func(*config.File, *state.Facts)
	// Plan says what must exist, and what is wrong with the file on this host.
	Plan func(*config.File, state.Facts) state.Part
	// Audit finds what is wrong between the parts of all features, that of the
	// planner among them.
	Audit func([]state.Part, state.Facts) []state.Problem
	// Nouns is what the feature has to show (weft show, the socket, metrics).
	Nouns []noun.Noun
}
