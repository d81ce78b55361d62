package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/user"
	"slices"
	"strings"

	"weft/internal/api"
	"weft/internal/config"
	"weft/internal/datapath"
	"weft/internal/feature/bridge"
	"weft/internal/features"
	"weft/internal/kernel"
	"weft/internal/paths"
	"weft/internal/reconcile"
	"weft/internal/state"
)

// Router is the network namespace that weft works on: both doors, and the
// place where things are kept.
type Router struct {
	Place    paths.Dirs
	kernel   *kernel.Kernel
	datapath *datapath.Datapath
}

// ProblemsError carries the problems that keep a configuration from being applied.
type ProblemsError []state.Problem

func (e ProblemsError) Error() string {
	return fmt.Sprintf("the configuration has %d problems", len(e))
}

// Open opens the namespace that the process is in, and makes the datapath's
// maps if they are not there.
func Open(options datapath.Options) (*Router, error) {
	here, err := paths.Here()
	if err != nil {
		return nil, err
	}
	if err := here.Make(); err != nil {
		return nil, err
	}
	r, err := look(here)
	if err != nil {
		return nil, err
	}
	if r.datapath, err = datapath.Open(here.Pins, options); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Look opens the namespace without changing anything.
func Look() (*Router, error) {
	here, err := paths.Here()
	if err != nil {
		return nil, err
	}
	r, err := look(here)
	if err != nil || !datapath.Exists(here.Pins) {
		return r, err
	}
	if r.datapath, err = datapath.View(here.Pins); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func look(here paths.Dirs) (*Router, error) {
	k, err := kernel.Open(here.Run)
	if err != nil {
		return nil, err
	}
	return &Router{Place: here, kernel: k}, nil
}

// Close lets go of the doors; everything stays as it is.
func (r *Router) Close() error {
	r.kernel.Close()
	if r.datapath == nil {
		return nil
	}
	return r.datapath.Close()
}

// Datapath gives the door to eBPF, nil if nothing is loaded.
func (r *Router) Datapath() *datapath.Datapath { return r.datapath }

func (r *Router) targets() reconcile.Targets {
	t := reconcile.Targets{state.Kernel: r.kernel}
	if r.datapath != nil {
		t[state.Datapath] = r.datapath
	}
	return t
}

// Facts reads what plans depend on.
func (r *Router) Facts() (state.Facts, error) { return r.facts(nil) }

// facts is Facts for a plan of f, complete: what features ask for, and what
// they say to each other.
func (r *Router) facts(f *config.File) (state.Facts, error) {
	var sizes state.Tables
	if f != nil {
		sizes = features.Sizes(f)
	}
	facts, err := gather(r.kernel, r.datapath, sizes)
	if err != nil {
		return facts, err
	}
	if facts.PLAT, err = readPLAT(r.Place.Run); err != nil {
		return facts, err
	}
	if facts.Clients, err = readClients(r.Place.Run); err != nil || f == nil {
		return facts, err
	}
	if err := r.answer(features.Asks(f), &facts); err != nil {
		return facts, err
	}
	return features.Offers(f, facts), nil
}

// answer adds to the facts what features ask of the host.
func (r *Router) answer(q state.Questions, facts *state.Facts) (err error) {
	facts.Sysctls, facts.Strangers = r.kernel.Sysctls(q.Sysctls), strangers(q.Accounts)
	facts.Ways, err = r.ways(q.Pairs)
	return err
}

// ways gives how packets get to the other ends of pseudowires, and what routers
// under way have told.
func (r *Router) ways(pairs []state.Pair) (map[state.Pair]state.Way, error) {
	ways, _, err := waysOf(context.Background(), r.kernel, pairs)
	if err != nil || r.datapath == nil || len(ways) == 0 {
		return ways, err
	}
	told, err := r.datapath.Ways()
	if errors.Is(err, datapath.ErrOtherVersion) {
		return ways, nil
	}
	for pair, way := range ways {
		way.PathMTU = told[pair].PathMTU
		ways[pair] = way
	}
	return ways, err
}

// fit gives the datapath tables of the sizes that f wants. Larger or smaller
// ones are new ones: the bindings and sessions of the old are lost.
func (r *Router) fit(f *config.File) error {
	return r.datapath.Resize(features.Sizes(f))
}

// Plan gives the steps that would bring the namespace to what f wants.
func (r *Router) Plan(ctx context.Context, f *config.File) ([]state.Step, []state.Problem, error) {
	facts, err := r.facts(f)
	if err != nil {
		return nil, nil, err
	}
	facts.PacketRules, facts.RefusalRules = packetRules(ctx, r.kernel, f)
	facts.NoVLANs = withoutVLANs(features.Asks(f))
	desired, problems := Desire(f, facts)
	steps, err := r.targets().Plan(ctx, desired)
	return steps, problems, err
}

// VXLANs lists the kernel's own pseudowires.
func (r *Router) VXLANs() ([]state.VXLANCount, error) { return r.kernel.VXLANs() }

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

// Leaks gives the ways around f's bridges that the host itself has, and whether
// the kernel tells VLANs apart, as far as who asks may know. It changes nothing.
func Leaks(f *config.File) ([]state.Problem, error) {
	if len(f.Names("bridge")) == 0 {
		return nil, nil
	}
	k, err := kernel.View()
	if err != nil {
		return nil, err
	}
	defer k.Close()
	q := features.Asks(f)
	facts := state.Facts{Sysctls: k.Sysctls(q.Sysctls), Strangers: strangers(q.Accounts)}
	if facts.Links, err = k.Links(); err != nil {
		return nil, err
	}
	facts.NoVLANs = withoutVLANs(q)
	return bridge.Leaks(f, facts), nil
}

// Apply brings the namespace to what f wants. What one round makes may be a
// fact for the next (an XDP program makes its device a target of redirects),
// so it goes on until a round finds nothing to do.
func (r *Router) Apply(ctx context.Context, f *config.File) (done []state.Step, facts state.Facts, err error) {
	if err := r.fit(f); err != nil {
		return nil, facts, err
	}
	for range 4 {
		if facts, err = r.facts(f); err != nil {
			return done, facts, err
		}
		desired, problems := Desire(f, facts)
		if state.HasErrors(problems) {
			return done, facts, ProblemsError(problems)
		}
		steps, err := r.targets().Plan(ctx, desired)
		if err != nil {
			return done, facts, err
		}
		if len(steps) == 0 {
			return done, facts, nil
		}
		if err := r.carryOut(ctx, steps); err != nil {
			return done, facts, err
		}
		done = append(done, steps...)
	}
	return done, facts, errors.New("the kernel does not keep what was set: " + done[len(done)-1].String())
}

// carryOut applies steps.
func (r *Router) carryOut(ctx context.Context, steps []state.Step) error {
	hurried := func() error { return nil }
	if manyWires(steps) {
		hurried = r.kernel.Hurry()
		if r.datapath != nil {
			// beside the devices, which take as long to make
			prepared := r.datapath.Prepare(programsOf(steps))
			defer func() { <-prepared }()
		}
	}
	return errors.Join(r.targets().Apply(ctx, steps), hurried())
}

// manyWires tells whether the steps make, or take away, so many pseudowires that
// it is worth to hurry the kernel.
func manyWires(steps []state.Step) bool {
	n := 0
	for _, s := range steps {
		switch s.Object.(type) {
		case state.Wire, state.Pseudowire:
			if s.Op != state.Change {
				n++
			}
		}
	}
	return n >= 32
}

// programsOf lists those that steps attach, or will once devices are there.
func programsOf(steps []state.Step) (names []string) {
	for _, s := range steps {
		if s.Op == state.Remove {
			continue
		}
		name := ""
		switch o := s.Object.(type) {
		case state.Attachment:
			name = o.Program
		case state.Wire, state.Pseudowire:
			name = "pseudowire_encap"
		}
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// unload takes everything that is weft's out of the namespace, and puts back
// what it changed.
func (r *Router) unload(ctx context.Context) ([]state.Step, error) {
	// Hosts are told while the addresses are still there. Who cannot be told
	// now will find out when lifetimes end; that is no reason to stay.
	_ = farewells(r.Place.Run)
	steps, err := r.targets().Plan(ctx, nil)
	if err != nil {
		return nil, err
	}
	if err := r.kernel.Undelegated(func(netip.Prefix) bool { return false }); err != nil {
		return nil, err
	}
	if err := r.kernel.UnrouteSubscribers(func(netip.Prefix) bool { return false }); err != nil {
		return nil, err
	}
	if err := r.carryOut(ctx, steps); err != nil {
		return steps, err
	}
	return steps, r.Place.Remove()
}

// Unload takes everything of weft's out of the namespace of the process. It
// refuses while a daemon runs there.
func Unload(ctx context.Context) ([]state.Step, error) {
	r, err := Look()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if _, err := os.Stat(r.Place.Run); errors.Is(err, fs.ErrNotExist) {
		return nil, r.Place.Remove()
	}
	held, err := lock(r.Place.Lock())
	if err != nil {
		return nil, err
	}
	defer held.Close()
	return r.unload(ctx)
}

// Match gives the kernel's own route for an address, nil if it has none.
func (r *Router) Match(ctx context.Context, a netip.Addr) (*state.KernelRoute, error) {
	m, err := r.kernel.Matcher()
	if err != nil {
		return nil, err
	}
	defer m.Close()
	k, ok, err := m.Match(ctx, a)
	if err != nil || !ok {
		return nil, err
	}
	return &k, nil
}

// Neighbours lists the kernel's neighbours.
func (r *Router) Neighbours(ctx context.Context) ([]state.KernelNeighbour, error) {
	return r.kernel.Neighbours(ctx)
}

// Compare holds weft's route table against the kernel's, at every boundary.
func (r *Router) Compare(ctx context.Context, routes *datapath.Routes) (api.Comparison, error) {
	prefixes, err := r.kernel.Prefixes(ctx)
	if err != nil {
		return api.Comparison{}, err
	}
	m, err := r.kernel.Matcher()
	if err != nil {
		return api.Comparison{}, err
	}
	defer m.Close()
	c := api.Comparer{Routes: routes, Kernel: m, Neighbours: r.kernel.Neighbours}
	return c.Compare(ctx, prefixes)
}
