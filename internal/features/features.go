// Package features is the list of all features. Adding one is one line here.
package features

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"weft/internal/config"
	"weft/internal/feature"
	"weft/internal/feature/bridge"
	"weft/internal/feature/bridge/bridgerun"
	"weft/internal/feature/dns64"
	"weft/internal/feature/dns64/dns64run"
	"weft/internal/feature/firewall"
	"weft/internal/feature/firewall/firewallrun"
	"weft/internal/feature/guard"
	"weft/internal/feature/guard/guardrun"
	"weft/internal/feature/host"
	"weft/internal/feature/host/hostrun"
	"weft/internal/feature/lns"
	"weft/internal/feature/lns/lnsrun"
	"weft/internal/feature/nat64"
	"weft/internal/feature/nat64/nat64run"
	"weft/internal/feature/offload"
	"weft/internal/feature/offload/offloadrun"
	"weft/internal/feature/pseudowire"
	"weft/internal/feature/pseudowire/pseudowirerun"
	"weft/internal/feature/ra"
	"weft/internal/feature/ra/rarun"
	"weft/internal/feature/route"
	"weft/internal/feature/route/routerun"
	"weft/internal/feature/sessionsync"
	"weft/internal/feature/sessionsync/sessionsyncrun"
	"weft/internal/feature/uplink"
	"weft/internal/feature/uplink/uplinkrun"
	"weft/internal/plan"
	"weft/internal/runner"
	"weft/internal/state"
)

// Entry is a feature with its effectful half. What a feature does not need is
// nil.
type Entry struct {
	feature.Feature
	// Run makes the runner. ctx ends when the router stops.
	Run func(ctx context.Context, d runner.Doors) runner.Runner
	// Source gives what those nouns are read from that do not come from the daemon,
	// whose source is the runner itself.
	Source func(d runner.Doors) any
	// Facts adds what only this feature knows of the host to the facts.
	Facts func(ctx context.Context, d runner.Doors, q state.Questions, facts *state.Facts) error
	// Inspect adds what takes too long for each round: for plans that people read.
	Inspect func(ctx context.Context, d runner.Doors, f *config.File, facts *state.Facts)
	// Files says what is wrong with the files that weft.toml names.
	Files func(*config.File) []state.Problem
	// Check is for weft check: what Files says, and takes longer.
	Check func(*config.File) []state.Problem
	// Host is for weft check on the machine; Root as well, but for root only: its
	// facts are inspected.
	Host, Root func(*config.File, state.Facts) []state.Problem
	// Commands are the commands of weft that the feature adds.
	Commands func(runner.Commands) []*cobra.Command
	// Unload takes away what Plan does not know of, before all else is.
	Unload func(d runner.Doors) error
}

// All lists the features in the order in which they offer, are planned and run.
func All() []Entry {
	return []Entry{
		{Feature: bridge.Feature, Source: bridgerun.Source, Host: bridge.Leaks},
		{Feature: host.Feature, Source: hostrun.Source},
		{Feature: uplink.Feature, Run: uplinkrun.New, Facts: uplinkrun.Facts},
		{Feature: nat64.Feature, Run: nat64run.New, Source: nat64run.Source, Facts: nat64run.Facts},
		{Feature: dns64.Feature, Run: dns64run.New},
		{Feature: ra.Feature, Run: rarun.New, Unload: rarun.Unload},
		{Feature: route.Feature, Run: routerun.New, Source: routerun.Source},
		{Feature: pseudowire.Feature, Run: pseudowirerun.New, Source: pseudowirerun.Source, Facts: pseudowirerun.Facts},
		{Feature: lns.Feature, Run: lnsrun.New(ra.Links{}), Source: lnsrun.Source, Facts: lnsrun.Facts, Check: lnsrun.Check, Unload: lnsrun.Unload},
		{Feature: guard.Feature, Run: guardrun.New, Source: guardrun.Source, Check: guardrun.Check, Inspect: guardrun.Inspect, Commands: guardrun.Commands},
		{Feature: firewall.Feature, Source: firewallrun.Source},
		{Feature: offload.Feature, Run: offloadrun.New, Source: offloadrun.Source, Inspect: offloadrun.Inspect, Root: offloadrun.Check},
		{Feature: sessionsync.Feature, Run: sessionsyncrun.New, Files: sessionsyncrun.Check},
	}
}

// Commands returns the commands that features add.
func Commands(r runner.Commands) (list []*cobra.Command) {
	for _, x := range All() {
		if x.Commands != nil {
			list = append(list, x.Commands(r)...)
		}
	}
	return list
}

// Sections lists every section that weft.toml may have.
func Sections() []config.Section {
	sections := config.CoreSections()
	for _, f := range All() {
		sections = append(sections, f.Sections...)
	}
	return sections
}

// Sizes returns how large the datapath's tables must be for a file, and which
// code of its programs no interface needs.
func Sizes(f *config.File) state.Tables {
	sizes := state.Tables{Unused: state.RoleOptional &^ f.Roles()}
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

// Ports lists the devices that are ports of bridges.
func Ports(f *config.File) []string { return bridge.Ports(f) }

// Asks returns what plans of a file must know of the host.
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

// Plan asks every feature for its part, and gives what must exist and what is
// wrong. facts are complete.
func Plan(f *config.File, facts state.Facts) (state.Desired, []state.Problem) {
	var audits []plan.Audit
	for _, x := range All() {
		if x.Audit != nil {
			audits = append(audits, x.Audit)
		}
	}
	desired, problems := plan.Desire(parts(f, facts), facts, audits...)
	return desired, placed(f, problems)
}

func parts(f *config.File, facts state.Facts) (list []state.Part) {
	for _, x := range All() {
		list = append(list, x.Plan(f, facts))
	}
	return list
}

// placed completes the places of problems, and gives the paths that the file has.
func placed(f *config.File, problems []state.Problem) []state.Problem {
	for i, p := range problems {
		if p.Pos == (state.Position{}) && p.Path != "" {
			problems[i].Pos = f.Position(p.Path)
		}
		problems[i].Path = f.Written(p.Path)
	}
	return problems
}

// Files returns what is wrong with the files that weft.toml names, as far as this
// process may read them.
func Files(f *config.File) (problems []state.Problem) {
	for _, x := range All() {
		if x.Files != nil {
			problems = append(problems, x.Files(f)...)
		}
	}
	return placed(f, problems)
}

// Check returns what is wrong with what those files hold, and what overlaps by the file
// alone, on whatever host.
func Check(f *config.File) (problems []state.Problem) {
	for _, x := range All() {
		if x.Check != nil {
			problems = append(problems, x.Check(f)...)
		}
	}
	return placed(f, append(problems, plan.Overlaps(parts(f, state.Facts{}))...))
}

// Host returns what is wrong with the file on this host, as far as any user may
// know; facts are complete.
func Host(f *config.File, facts state.Facts) (problems []state.Problem) {
	for _, x := range All() {
		if x.Host != nil {
			problems = append(problems, x.Host(f, facts)...)
		}
	}
	return placed(f, problems)
}

// Root returns what root may know besides; facts are inspected.
func Root(f *config.File, facts state.Facts) (problems []state.Problem) {
	for _, x := range All() {
		if x.Root != nil {
			problems = append(problems, x.Root(f, facts)...)
		}
	}
	return placed(f, problems)
}
