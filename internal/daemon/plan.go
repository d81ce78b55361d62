// Package daemon owns the tasks and the one event loop of `weft run`. It is
// where the rooms meet: config -> the features' plans -> reconcile -> the
// kernel and the datapath.
package daemon

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"weft/internal/config"
	"weft/internal/datapath"
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
	"weft/internal/kernel"
	"weft/internal/plan"
	"weft/internal/state"
)

// Sections lists every section that weft.toml may have.
func Sections() []config.Section {
	return slices.Concat(config.CoreSections(), []config.Section{
		nat64.Section(), dns64.Section(), ra.Section(), route.Section(), failover.Section(),
		access.Section(), access.ClientSection(),
		bridge.Section(), pseudowire.Section(), offload.Section(),
	}, guard.Sections())
}

// Load reads a weft.toml. The error is that of reading the file; what is wrong
// in it, and with the files that it names, are problems.
func Load(file string) (*config.File, []state.Problem, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, fmt.Errorf("read configuration: %w", err)
	}
	f, problems := Parse(file, text)
	if !state.HasErrors(problems) {
		problems = append(problems, Files(f)...)
	}
	return f, problems, nil
}

// Parse is Load for a text that is at hand.
func Parse(file string, text []byte) (*config.File, []state.Problem) {
	return config.Load(file, text, Sections())
}

// Desire asks every feature for its plan. It is pure.
func Desire(f *config.File, facts state.Facts) (state.Desired, []state.Problem) {
	facts = learn(f, facts)
	return plan.Desire(partsOf(f, facts), facts)
}

// partsOf gives what each feature asks for, in the order in which it is made.
func partsOf(f *config.File, facts state.Facts) []state.Part {
	var parts []state.Part
	for _, plan := range []func(*config.File, state.Facts) state.Part{
		bridge.Plan, host.Plan, nat64.Plan, dns64.Plan, ra.Plan, route.Plan, pseudowire.Plan, access.Plan, guard.Plan, offload.Plan,
	} {
		parts = append(parts, plan(f, facts))
	}
	return append(parts, state.Part{Feature: "failover", Problems: failover.Plan(f, nat64.Sharable(f))})
}

// tablesOf gives how large the datapath's tables must be.
func tablesOf(f *config.File) state.Tables {
	t := nat64.Tables(f)
	t.Subscribers = access.Tables(f).Subscribers
	t.Flows = offload.Flows(f)
	t.Switch = offload.Switch(f)
	t.Unused = state.AllRoles &^ f.Roles()
	return t
}

// Makes lists the devices of f that weft makes itself.
func Makes(f *config.File) []string {
	return slices.Concat(pseudowire.Devices(f), bridge.Devices(f), access.Made(f))
}

// learn adds what one feature's section tells the others.
func learn(f *config.File, facts state.Facts) state.Facts {
	facts.Prefixes64 = nat64.Prefixes64(f)
	facts.Shared = failover.Shared(f, nat64.Sharable(f))
	facts.NameServer = dns64.Interfaces(f)
	facts.Delegated = ra.Delegated(f)
	facts.Made = append(facts.Made, Makes(f)...)
	return facts
}

// gather reads the facts. d may be nil: nothing is loaded yet. tables are those
// that programs are to be loaded with.
func gather(k *kernel.Kernel, d *datapath.Datapath, tables state.Tables) (state.Facts, error) {
	links, err := k.Links()
	if err != nil {
		return state.Facts{}, err
	}
	facts := state.Facts{Links: links, Builds: datapath.Builds(tables), Translators: map[string]int{}, Accesses: map[string]int{}}
	if d == nil {
		return facts, nil
	}
	translators, err := d.Translators()
	if err != nil && !errors.Is(err, datapath.ErrOtherVersion) {
		return facts, err
	}
	for _, t := range translators {
		facts.Translators[t.Name] = t.ID
	}
	accesses, err := d.Accesses()
	if err != nil && !errors.Is(err, datapath.ErrOtherVersion) {
		return facts, err
	}
	for _, a := range accesses {
		facts.Accesses[a.Name] = a.ID
	}
	return facts, nil
}
