// Package daemon owns the tasks and the one event loop of `weft run`. It is
// where the rooms meet: config -> the features' plans -> reconcile -> the
// kernel and the datapath.
package daemon

import (
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
	var desired state.Desired
	var problems []state.Problem
	for _, plan := range []func(*config.File, state.Facts) (state.Desired, []state.Problem){
		bridge.Plan, host.Plan, nat64.Plan, dns64.Plan, ra.Plan, route.Plan, pseudowire.Plan, access.Plan, guard.Plan, offload.Plan,
	} {
		d, p := plan(f, facts)
		desired, problems = append(desired, d...), append(problems, p...)
	}
	problems = append(problems, failover.Plan(f, nat64.Sharable(f))...)
	state.SortProblems(problems)
	return devicesFirst(unique(withTags(guarded(desired)))), problems
}

// devicesFirst has devices made before anything is done on them: one feature
// may work on the device of another.
func devicesFirst(desired state.Desired) state.Desired {
	isDevice := func(o state.Object) int {
		if _, ok := o.(state.Device); ok {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(desired, func(a, b state.Object) int { return isDevice(a) - isDevice(b) })
	return desired
}

// guarded keeps XDP off the ports of weft's bridges: it would see frames before
// the guards there do, and send some out past them. TC programs come after.
func guarded(desired state.Desired) state.Desired {
	ports := map[string]bool{}
	for _, o := range desired {
		if g, ok := o.(state.BridgeGuard); ok {
			ports[g.Device] = true
		}
	}
	if len(ports) == 0 {
		return desired
	}
	var all state.Desired
	for _, o := range desired {
		switch v := o.(type) {
		case state.Attachment:
			if v.Hook == state.HookXDP && ports[v.Device] {
				continue
			}
		case state.Port:
			v.XDPOut = v.XDPOut && !ports[v.Device]
			o = v
		}
		all = append(all, o)
	}
	return all
}

// withTags has VLAN tags left in the frames of each device before an XDP
// program gets them, whichever feature wants it there.
func withTags(desired state.Desired) state.Desired {
	var all state.Desired
	for _, o := range desired {
		if a, ok := o.(state.Attachment); ok && a.Hook == state.HookXDP {
			all = append(all, state.TagsInFrames{Device: a.Device})
		}
		all = append(all, o)
	}
	return all
}

// tablesOf gives how large the datapath's tables must be.
func tablesOf(f *config.File) state.Tables {
	t := nat64.Tables(f)
	t.Subscribers = access.Tables(f).Subscribers
	t.Flows = offload.Flows(f)
	t.Switch = offload.Switch(f)
	t.Unused = state.AllRoles &^ rolesOf(f)
	return t
}

// rolesOf gives what interfaces may be for as f has it, whatever the host has now:
// programs are loaded for that.
func rolesOf(f *config.File) state.Roles {
	var all state.Roles
	for section, role := range map[string]state.Roles{
		"nat64": state.RoleTranslated, "pseudowire": state.RolePseudowires, "guard": state.RoleGuarded,
		"access": state.RoleSubscribers, "l2tp_client": state.RoleSubscribers,
		"route": state.RoleRouted, "offload": state.RoleOffloaded,
	} {
		if f.Given(section) {
			all |= role
		}
	}
	return all
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

// unique keeps the first of objects with one key: two features may want the
// same. What they want of a port is joined.
func unique(desired state.Desired) state.Desired {
	place := map[string]int{}
	var kept state.Desired
	for _, o := range desired {
		i, seen := place[o.Key()]
		if !seen {
			place[o.Key()] = len(kept)
			kept = append(kept, o)
			continue
		}
		if p, ok := o.(state.Port); ok {
			kept[i] = kept[i].(state.Port).Join(p)
		}
	}
	return kept
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
	if err != nil {
		return facts, err
	}
	for _, t := range translators {
		facts.Translators[t.Name] = t.ID
	}
	accesses, err := d.Accesses()
	if err != nil {
		return facts, err
	}
	for _, a := range accesses {
		facts.Accesses[a.Name] = a.ID
	}
	return facts, nil
}
