// Package datapath is the only door to eBPF: it loads the programs of bpf/,
// attaches them, and gives their maps Go types. Maps and links are pinned in
// one directory of a bpf file system, so that forwarding goes on without the
// process, and the next one finds everything as it was.
package datapath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"

	"weft/internal/state"
	"weft/internal/task"
)

// Options change how the programs are loaded; the zero value is the normal way.
type Options struct {
	ForceSlow     bool         // every packet that would be translated goes to the slow path
	UnlimitedSlow bool         // no limit on how much goes there
	Tables        state.Tables // sizes of the tables that grow with what weft.toml wants
	Parts         []Part       // what the packages of typed tables declare

	TestClock bool                    // of tests: time is what map nat64_clock says, and no refusal is let up for an error
	Fault     func(step string) error // of tests: an error ends the opening there, as a kill would
}

// Datapath holds the pinned maps of one network namespace.
type Datapath struct {
	dir     string
	options Options

	changing sync.Mutex    // held while steps are applied, and by Exclusive
	applied  atomic.Uint32 // steps, ever
	mu       sync.Mutex    // guards the fields below
	maps     map[string]*ebpf.Map
	loaded   map[string]*ebpf.Program // by name: the verifier need see each only once
}

// Exists tells whether weft has a datapath pinned at dir.
func Exists(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "maps"))
	return err == nil
}

// Open opens the datapath at dir, a directory in a bpf file system, and makes
// what is not there yet. A map whose layout is of another version is replaced;
// the programs that used it keep it until they are replaced too. A process that
// is killed on the way leaves what was there before, or the whole.
func Open(dir string, options Options) (*Datapath, error) {
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("lift the memory lock limit: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "links"), 0o700); err != nil {
		return nil, fmt.Errorf("make pin directory: %w", err)
	}
	d := &Datapath{dir: dir, options: options, maps: map[string]*ebpf.Map{}}
	err := d.openMaps()
	for _, p := range options.Parts {
		if err == nil && p.Opened != nil {
			err = p.Opened(d)
		}
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// View opens an existing datapath to look at, making nothing.
func View(dir string, parts []Part) (*Datapath, error) {
	all, err := openPinned(filepath.Join(dir, mapsDir))
	if err != nil {
		return nil, err
	}
	return &Datapath{dir: dir, options: Options{Parts: parts}, maps: all}, nil
}

// Close lets go of the maps and programs; what is pinned stays.
func (d *Datapath) Close() error {
	var errs []error
	for _, p := range d.loaded {
		errs = append(errs, p.Close())
	}
	for _, m := range d.maps {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}

// Remove takes the pinned maps and whatever links are left out of the kernel.
func Remove(dir string) error {
	err := os.RemoveAll(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// ErrOtherVersion says that what is pinned was made by another version of weft,
// and lacks a map. The next Open adds it.
var ErrOtherVersion = errors.New("the pinned datapath is of another version; weft run replaces it")

// Unpinned makes a datapath that is pinned nowhere and attached nowhere: its
// programs are run by BPF_PROG_RUN, for tests and measurements.
func Unpinned(options Options) (*Datapath, error) {
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("lift the memory lock limit: %w", err)
	}
	d := &Datapath{options: options, maps: map[string]*ebpf.Map{}}
	specs, err := d.MapSpecs()
	if err != nil {
		return nil, err
	}
	for name := range specs {
		if err := d.renew(Group{Maps: []string{name}}, specs, nil, d.maps); err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	return d, nil
}

// With gives a datapath over the same maps, whose programs are loaded with other
// options.
func (d *Datapath) With(options Options) *Datapath {
	return &Datapath{dir: d.dir, options: options, maps: d.maps}
}

// Options are those that programs are loaded with.
func (d *Datapath) Options() Options { return d.options }

// EachMap visits the shared maps by their names.
func (d *Datapath) EachMap(visit func(name string, m *ebpf.Map) error) error {
	for name, m := range d.maps {
		if err := visit(name, m); err != nil {
			return err
		}
	}
	return nil
}

// Exclusive runs f while no steps are applied, nor another f runs.
func (d *Datapath) Exclusive(f func() error) error {
	d.changing.Lock()
	defer d.changing.Unlock()
	return f()
}

// Applied is how many steps have been carried out, ever: while it stays the same,
// what steps write is what it was.
func (d *Datapath) Applied() uint32 { return d.applied.Load() }

// Dir is where maps and programs are pinned; empty if they are not.
func (d *Datapath) Dir() string { return d.dir }

// mapNamed gives a map that every datapath of this version has.
func (d *Datapath) Map(name string) (*ebpf.Map, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if m := d.maps[name]; m != nil {
		return m, nil
	}
	return nil, fmt.Errorf("open map %s: %w", name, ErrOtherVersion)
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

// Prepare loads the programs of steps before they are needed, until done is
// closed. Errors come again when they are.
func (d *Datapath) Prepare(steps []state.Step) (done <-chan struct{}) {
	c := make(chan struct{})
	task.Go(func() {
		defer close(c)
		for _, name := range programsOf(steps) {
			if p, err := programNamed(name); err == nil {
				_, _ = d.load(p)
			}
		}
	})
	return c
}

// Load loads a program by its name, with the shared maps. It belongs to d.
func (d *Datapath) Load(name string) (*ebpf.Program, error) {
	p, err := programNamed(name)
	if err != nil {
		return nil, err
	}
	return d.load(p)
}

// load loads a program with the shared maps. It belongs to d.
func (d *Datapath) load(p program) (*ebpf.Program, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if prog := d.loaded[p.name]; prog != nil {
		return prog, nil
	}
	spec, err := d.chosen(p)
	if err != nil {
		return nil, err
	}
	replace := map[string]*ebpf.Map{}
	for name, m := range spec.Maps {
		if m.Pinning == ebpf.PinByName {
			replace[name] = d.maps[name]
		}
	}
	collection, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: replace})
	if err != nil {
		return nil, fmt.Errorf("load program %s: %w", p.name, err)
	}
	defer collection.Close()
	if d.loaded == nil {
		d.loaded = map[string]*ebpf.Program{}
	}
	d.loaded[p.name] = collection.DetachProgram(p.name)
	return d.loaded[p.name], nil
}

// Chosen gives a program, by its name, as it is to be loaded.
func (d *Datapath) Chosen(name string) (*ebpf.CollectionSpec, error) {
	p, err := programNamed(name)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.chosen(p)
}

// chosen gives a program as it is to be loaded, with all that is chosen then.
func (d *Datapath) chosen(p program) (*ebpf.CollectionSpec, error) {
	spec, err := d.spec(p)
	if err != nil {
		return nil, err
	}
	for name, on := range map[string]bool{
		"nat64_force_slow": d.options.ForceSlow, "slow_unlimited": d.options.UnlimitedSlow,
		"nat64_test_clock": d.options.TestClock, "nat64_no_errors": d.options.TestClock,
	} {
		if v := spec.Variables[name]; v != nil && on {
			if err := v.Set(true); err != nil {
				return nil, fmt.Errorf("set %s of program %s: %w", name, p.name, err)
			}
		}
	}
	for _, part := range d.options.Parts {
		if part.Load == nil {
			continue
		}
		if err := part.Load(d.maps, spec); err != nil {
			return nil, fmt.Errorf("load program %s: %w", p.name, err)
		}
	}
	return spec, nil
}
