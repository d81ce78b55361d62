// Package features is the list of all features. Adding one is one line here.
package features

import (
	"slices"

	"weft/internal/config"
	"weft/internal/feature"
	"weft/internal/feature/access"
	"weft/internal/feature/bridge"
	"weft/internal/feature/dns64"
	"weft/internal/feature/failover"
	"weft/internal/feature/guard"
	"weft/internal/feature/host"
	"weft/internal/feature/nat64"
	"weft/internal/feature/offload"
	"weft/internal/feature/pseudowire"
	"weft/internal/feature/ra"
	"weft/internal/feature/route"
	"weft/internal/state"
)

// All lists the features in the order in which they offer, are planned and run.
func All() []feature.Feature {
	return []feature.Feature{
		bridge.Feature,
		host.Feature,
		nat64.Feature,
		dns64.Feature,
		ra.Feature,
		route.Feature,
		pseudowire.Feature,
		access.Feature,
		guard.Feature,
		offload.Feature,
		failover.Feature,
	}
}

// Sections lists every section that weft.toml may have.
func Sections() []config.Section {
	sections := config.CoreSections()
	for _, f := range All() {
		sections = append(sections, f.Sections...)
	}
	return sections
}

// Sizes gives how large the datapath's tables must be for a file, and which
// code of its programs no interface needs.
func Sizes(f *config.File) state.Tables {
	sizes := state.Tables{Unused: state.AllRoles &^ f.Roles()}
	for _, x := range All() {
		if x.Sizes != nil {
			x.Sizes(f, &sizes)
		}
	}
	return sizes
}

// Makes lists the devices of a file that weft makes itself.
func Makes(f *config.File) (devices []string) {
	for _, x := range All() {
		if x.Makes != nil {
			devices = append(devices, x.Makes(f)...)
		}
	}
	return devices
}

// Asks gives what plans of a file must know of the host.
func Asks(f *config.File) (q state.Questions) {
	for _, x := range All() {
		if x.Asks != nil {
			x.Asks(f, &q)
		}
	}
	return q
}

// Offers completes the facts by what sections of a file say to other features.
func Offers(f *config.File, facts state.Facts) state.Facts {
	facts.Made = slices.Concat(facts.Made, Makes(f))
	for _, x := range All() {
		if x.Offers != nil {
			x.Offers(f, &facts)
		}
	}
	return facts
}

// Plan asks every feature for its part. facts are complete.
func Plan(f *config.File, facts state.Facts) (parts []state.Part) {
	for _, x := range All() {
		parts = append(parts, x.Plan(f, facts))
	}
	return parts
}
