package daemon

import (
	"context"
	"os/user"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"weft/internal/config"
	"weft/internal/datapath"
	"weft/internal/datapath/ability"
	"weft/internal/features"
	"weft/internal/kernel"
	"weft/internal/paths"
	"weft/internal/state"
)

// facts reads all facts that plans of f depend on: those that features need, and those that
// they provide to each other. The sizes of the tables are part of the programs' builds.
func (r *Router) facts(ctx context.Context, f *config.File) (facts state.Facts, err error) {
	if err = readHost(ctx, r.kernel, &facts); err != nil {
		return facts, err
	}
	facts.Builds = datapath.Builds(features.Sizes(f))
	q := features.Asks(f)
	answer(r.kernel, q, &facts)
	d := r.Doors()
	for _, x := range features.All() {
		if x.Facts == nil {
			continue
		}
		if err := x.Facts(ctx, d, q, &facts); err != nil {
			return facts, err
		}
	}
	return features.Offers(f, facts), nil
}

// readHost reads devices, addresses and routes, which any user may.
func readHost(ctx context.Context, k *kernel.Kernel, facts *state.Facts) (err error) {
	if facts.Links, err = k.Links(); err != nil {
		return err
	}
	names := map[int]string{}
	for _, l := range facts.Links {
		names[l.Index] = l.Name
	}
	if facts.Routes, err = k.HostRoutes(ctx, names); err != nil {
		return err
	}
	for i := range facts.Links {
		l := &facts.Links[i]
		l.LearntRA = l.LearntRA || l.AcceptRA && slices.ContainsFunc(facts.Routes, func(r state.RouteFact) bool {
			return r.Device == l.Name && r.Protocol == unix.RTPROT_RA
		})
	}
	return nil
}

// inspected is facts with those that take too long for each round: for output that
// people read.
func (r *Router) inspected(ctx context.Context, f *config.File) (state.Facts, error) {
	facts, err := r.facts(ctx, f)
	if err != nil {
		return facts, err
	}
	d := r.Doors()
	for _, x := range features.All() {
		if x.Inspect != nil {
			x.Inspect(ctx, d, f, &facts)
		}
	}
	return facts, nil
}

// answer adds the answers of the kernel and the host's accounts to the facts.
func answer(k *kernel.Kernel, q state.Questions, facts *state.Facts) {
	facts.Sysctls, facts.Outsiders, facts.NoVLANs = k.Sysctls(q.Sysctls), outsiders(q.Accounts), withoutVLANs(q)
}

// strangers returns the users and groups that the host does not have.
func outsiders(all []string) []string {
	return slices.DeleteFunc(all, func(who string) bool {
		kind, name, _ := strings.Cut(who, " ")
		var err error
		if kind == "user" {
			_, err = user.Lookup(name)
		} else {
			_, err = user.LookupGroup(name)
		}
		return err == nil
	})
}

// withoutVLANs reports whether a plan needs to know this and the kernel's bridges
// have no VLAN filtering. If the kernel cannot be queried, the result is false.
func withoutVLANs(q state.Questions) bool {
	if !q.VLANs {
		return false
	}
	know, err := kernel.BridgesKnowVLANs()
	return err == nil && !know
}

// CheckHost returns the problems of f on this host, as far as the caller's rights
// allow. It changes nothing.
func CheckHost(ctx context.Context, f *config.File, root bool) ([]state.Problem, error) {
	facts, err := hostFacts(ctx, f, root)
	if err != nil {
		return nil, err
	}
	problems := features.Host(f, facts)
	desired, planned := features.Plan(f, facts)
	problems = append(problems, planned...)
	if root {
		here, err := paths.LocalAddr()
		if err != nil {
			return nil, err
		}
		problems = append(problems, ability.Problems(f.Position("").File, here.Pins, desired)...)
	}
	if !root {
		// the file may be for another machine, and not all facts of this one are known
		for i := range problems {
			problems[i].Severity = state.Warning
		}
	} else if !state.HasErrors(problems) {
		problems = append(problems, features.Root(f, facts)...)
	}
	return state.Distinct(problems), nil
}

// hostFacts are the facts that the caller may read: for root inspected facts, for
// others those of devices and settings.
func hostFacts(ctx context.Context, f *config.File, root bool) (facts state.Facts, err error) {
	if root {
		r, err := Look()
		if err != nil {
			return facts, err
		}
		defer r.Close()
		return r.inspected(ctx, f)
	}
	k, err := kernel.View()
	if err != nil {
		return facts, err
	}
	defer k.Close()
	answer(k, features.Asks(f), &facts)
	if err = readHost(ctx, k, &facts); err != nil {
		return facts, err
	}
	return features.Offers(f, facts), nil
}
