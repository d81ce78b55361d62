package daemon

import (
	"context"
	"os/user"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"weft/internal/config"
	"weft/internal/datapath"
	"weft/internal/features"
	"weft/internal/kernel"
	"weft/internal/state"
)

// facts reads what plans of f depend on, complete: what features ask for, and
// what they say to each other. How large its tables are is part of the programs'
// builds.
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

// inspected is facts with what takes too long for each round: for what people
// read.
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

// answer adds to the facts what the kernel and the host's accounts say.
func answer(k *kernel.Kernel, q state.Questions, facts *state.Facts) {
	facts.Sysctls, facts.Strangers, facts.NoVLANs = k.Sysctls(q.Sysctls), strangers(q.Accounts), withoutVLANs(q)
}

// strangers gives those users and groups that the host does not have.
func strangers(all []string) []string {
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

// withoutVLANs tells whether it matters that the kernel is known to tell no
// VLANs apart in bridges: who may not ask it is not told.
func withoutVLANs(q state.Questions) bool {
	if !q.VLANs {
		return false
	}
	know, err := kernel.BridgesKnowVLANs()
	return err == nil && !know
}

// CheckHost says what is wrong with f on this host, as far as who asks may know.
// It changes nothing.
func CheckHost(ctx context.Context, f *config.File, root bool) ([]state.Problem, error) {
	facts, err := hostFacts(ctx, f, root)
	if err != nil {
		return nil, err
	}
	problems := features.Host(f, facts)
	_, planned := features.Plan(f, facts)
	problems = append(problems, planned...)
	if !root {
		// the file may be for another machine, and not all of this one is known
		for i := range problems {
			problems[i].Severity = state.Warning
		}
	} else if !state.HasErrors(problems) {
		problems = append(problems, features.Root(f, facts)...)
	}
	return once(problems), nil
}

// once leaves each problem out that another one says already.
func once(problems []state.Problem) (kept []state.Problem) {
	for _, p := range problems {
		if !slices.ContainsFunc(kept, func(k state.Problem) bool { return k.Pos == p.Pos && k.What == p.What }) {
			kept = append(kept, p)
		}
	}
	state.SortProblems(kept)
	return kept
}

// hostFacts is what may be known of this host: for root inspected facts, for others
// what its devices and settings say.
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
