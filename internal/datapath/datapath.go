// Package datapath is the only package that uses eBPF: it loads the programs of
// bpf/, attaches them, and gives their maps Go types. Maps and links are pinned in
// one directory of a bpf file system, so that forwarding continues without the
// process, and the next process finds its state there.
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

	"weft/internal/state"
	"weft/internal/task"
)

// Options change how the programs are loaded; the zero value is the default.
type Options struct {
	ForceSlow     bool         // every packet that would be translated goes to the slow path
	UnlimitedSlow bool         // no rate limit for the slow path
	Tables        state.Tables // sizes of the tables that depend on weft.toml
	Parts         []Part       // the declarations of the packages of typed tables

	TestClock bool                    // for tests: map nat64_clock is the time, and refused packets cause no ICMP error
	Fault     func(step string) error // for tests: an error ends Open at that step, as a kill would
}

// Datapath holds the pinned maps of one network namespace.
type Datapath struct {
	dir     string
	options Options

	changing sync.Mutex    // held while steps are applied, and by Exclusive
	applied  atomic.Uint32 // steps, ever
	mu       sync.Mutex    // guards the fields below
	maps     map[string]*ebpf.Map
	loaded   map[string]*ebpf.Program // by name: each is verified only once
}

// Exists reports whether weft has a datapath pinned at dir.
func Exists(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "maps"))
	return err == nil
}

// Open opens the datapath at dir, a directory in a bpf file system, and creates
// missing maps. A map whose layout is of another version is replaced; programs that
// use the old one keep it until they are replaced too. A process that is killed
// meanwhile leaves either the old state or the complete new one.
func Open(dir string, options Options) (*Datapath, error) {
	if err := os.MkdirAll(filepath.Join(dir, "links"), 0o700); err != nil {
		return nil, fmt.Errorf("make pin directory: %w (is the BPF file system mounted there? mount -t bpf bpf /sys/fs/bpf)", err)
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

// View opens an existing datapath read-only, and creates nothing.
func View(dir string, parts []Part) (*Datapath, error) {
	all, err := openPinned(filepath.Join(dir, mapsDir))
	if err != nil {
		return nil, err
	}
	return &Datapath{dir: dir, options: Options{Parts: parts}, maps: all}, nil
}

// Close closes the maps and programs; pins stay.
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

// Remove removes the pinned maps and all links from the kernel.
func Remove(dir string) error {
	err := os.RemoveAll(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// ErrOtherVersion is returned if the pinned datapath was made by another version of
// weft and lacks a map. The next Open creates it.
var ErrOtherVersion = errors.New("the pinned datapath was made by another version; weft run replaces it")

// Unpinned creates a datapath that is neither pinned nor attached: its programs are
// run by BPF_PROG_RUN, for tests and measurements.
func Unpinned(options Options) (*Datapath, error) {
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

// With returns a datapath with the same maps, whose programs are loaded with other
// options.
func (d *Datapath) With(options Options) *Datapath {
	return &Datapath{dir: d.dir, options: options, maps: d.maps}
}

// Options are those that programs are loaded with.
func (d *Datapath) Options() Options { return d.options }

// EachMap calls visit for each shared map.
func (d *Datapath) EachMap(visit func(name string, m *ebpf.Map) error) error {
	for name, m := range d.maps {
		if err := visit(name, m); err != nil {
			return err
		}
	}
	return nil
}

// Exclusive runs f while no step is applied and no other f runs.
func (d *Datapath) Exclusive(f func() error) error {
	d.changing.Lock()
	defer d.changing.Unlock()
	return f()
}

// Applied is the number of steps applied so far: while it is unchanged, so are the
// maps that steps write.
func (d *Datapath) Applied() uint32 { return d.applied.Load() }

// Dir is the directory of the pins; empty for an unpinned datapath.
func (d *Datapath) Dir() string { return d.dir }

// Map returns a map that every datapath of this version has.
func (d *Datapath) Map(name string) (*ebpf.Map, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if m := d.maps[name]; m != nil {
		return m, nil
	}
	return nil, fmt.Errorf("open map %s: %w", name, ErrOtherVersion)
}

// programsOf lists the programs that steps attach, now or when their devices exist.
func programsOf(steps []state.Step) (names []string) {
	for _, s := range steps {
		if s.Op == state.Remove {
			continue
		}
		name := ""
		switch o := s.Object.(type) {
		case state.Attachment:
			name = o.Program
		case state.PseudowireDevice, state.Pseudowire:
			name = "pseudowire_encap"
		}
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// Prepare loads the programs of steps in advance, until done is closed. Errors are
// returned when the programs are used.
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

// Chosen returns a program's specification, by name, with all load-time choices
// applied.
func (d *Datapath) Chosen(name string) (*ebpf.CollectionSpec, error) {
	p, err := programNamed(name)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.chosen(p)
}

// chosen returns a program's specification with all load-time choices applied.
func (d *Datapath) chosen(p program) (*ebpf.CollectionSpec, error) {
	spec, err := d.spec(p)
	if err != nil {
		return nil, err
	}
	for name, on := range map[string]bool{
		// what the slow path itself asks (a program without a hook) is not forced back to it
		"nat64_force_slow": d.options.ForceSlow && p.hook != "", "slow_unlimited": d.options.UnlimitedSlow,
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
