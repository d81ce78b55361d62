package datapath

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weft/internal/fault"
)

// The maps are pinned in one directory, which is always complete: if a map is
// missing or does not fit, all are pinned in a second directory, the fitting ones
// once more, and one rename replaces the first. Attached programs keep their maps
// until they are replaced.
const (
	mapsDir  = "maps"
	asideDir = "maps-new" // leftovers of a killed process are removed
)

// step is where a test may end the opening.
func (d *Datapath) step(p fault.Point, name string) error {
	fault.At(p, name)
	if d.options.Fault == nil {
		return nil
	}
	return d.options.Fault(string(p) + " " + name)
}

// openMaps opens the pinned maps, and creates those that are missing or do not fit.
func (d *Datapath) openMaps() error {
	if err := os.RemoveAll(filepath.Join(d.dir, asideDir)); err != nil {
		return fmt.Errorf("remove leftovers of a killed process: %w", err)
	}
	specs, err := d.MapSpecs()
	if err != nil {
		return err
	}
	pinned, err := openPinned(filepath.Join(d.dir, mapsDir))
	if err != nil {
		return err
	}
	fresh, grouped := map[string]*ebpf.Map{}, map[string]bool{}
	list := d.groups()
	for _, g := range list {
		for _, name := range g.Maps {
			grouped[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(specs)) {
		if !grouped[name] {
			list = append(list, Group{Maps: []string{name}})
		}
	}
	for _, g := range list {
		if err := d.renew(g, specs, pinned, fresh); err != nil {
			return errors.Join(err, closeMaps(pinned), closeMaps(fresh))
		}
	}
	for name, m := range pinned {
		if fresh[name] != nil || specs[name] == nil {
			err = errors.Join(err, m.Close())
		} else {
			d.maps[name] = m
		}
	}
	maps.Copy(d.maps, fresh)
	if err != nil || len(fresh) == 0 && len(pinned) == len(specs) {
		return err
	}
	return d.pinMaps(d.maps)
}

// MapSpecs describes all maps that are pinned.
func (d *Datapath) MapSpecs() (map[string]*ebpf.MapSpec, error) {
	specs := map[string]*ebpf.MapSpec{}
	for _, p := range append(programs(), helpers()...) {
		spec, err := d.spec(p)
		if err != nil {
			return nil, err
		}
		for name, m := range spec.Maps {
			if m.Pinning == ebpf.PinByName && specs[name] == nil {
				specs[name] = m
			}
		}
	}
	return specs, nil
}

// openPinned opens all maps of a directory; none if it does not exist.
func openPinned(dir string) (map[string]*ebpf.Map, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	all := map[string]*ebpf.Map{}
	for _, e := range entries {
		m, err := ebpf.LoadPinnedMap(filepath.Join(dir, e.Name()), nil)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open map %s: %w", e.Name(), err), closeMaps(all))
		}
		all[e.Name()] = m
	}
	return all, nil
}

// renew creates the maps of a group in fresh, unless all exist with the current
// layout and size.
func (d *Datapath) renew(g Group, specs map[string]*ebpf.MapSpec, there, fresh map[string]*ebpf.Map) error {
	fits := func(name string) bool { return there[name] != nil && specs[name].Compatible(there[name]) == nil }
	if !slices.ContainsFunc(g.Maps, func(name string) bool { return !fits(name) }) {
		return nil
	}
	for _, name := range g.Maps {
		spec := specs[name].Copy()
		spec.Pinning = ebpf.PinNone // pinMaps does
		m, err := ebpf.NewMap(spec)
		if err == nil {
			fresh[name] = m
			err = d.fill(name, m, spec)
		}
		if err == nil {
			err = d.step(fault.MapMade, name)
		}
		if err != nil {
			return fmt.Errorf("make map %s: %w", name, err)
		}
	}
	return nil
}

// fill writes the initial content of a new map.
func (d *Datapath) fill(name string, m *ebpf.Map, spec *ebpf.MapSpec) error {
	for _, p := range d.options.Parts {
		if f := p.Fill[name]; f != nil {
			return f(m, spec)
		}
	}
	return nil
}

// pinMaps makes these the pinned maps.
func (d *Datapath) pinMaps(all map[string]*ebpf.Map) error {
	if d.dir == "" {
		return nil
	}
	aside, place := filepath.Join(d.dir, asideDir), filepath.Join(d.dir, mapsDir)
	if err := os.Mkdir(aside, 0o700); err != nil {
		return fmt.Errorf("make pin directory: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if err := pinAgain(all[name], filepath.Join(aside, name)); err != nil {
			return fmt.Errorf("pin map %s: %w", name, err)
		}
		if err := d.step(fault.MapPinned, name); err != nil {
			return err
		}
	}
	err := unix.Renameat2(unix.AT_FDCWD, aside, unix.AT_FDCWD, place, unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.ENOENT) {
		err = os.Rename(aside, place)
	}
	if err != nil {
		return fmt.Errorf("put the pinned maps in place: %w", err)
	}
	if err := d.step(fault.MapsPlaced, place); err != nil {
		return err
	}
	return os.RemoveAll(aside)
}

// ReplaceMap pins a map in the place of the one with that name, and makes the
// programs that use it be loaded again.
func (d *Datapath) ReplaceMap(name string, m *ebpf.Map, use func(program string) bool) error {
	if d.dir != "" {
		fresh, place := filepath.Join(d.dir, mapsDir, name+"-new"), filepath.Join(d.dir, mapsDir, name)
		if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		// in one step: the pin always exists
		if err := errors.Join(m.Pin(fresh), os.Rename(fresh, place)); err != nil {
			return fmt.Errorf("pin map %s: %w", name, err)
		}
		fault.At(fault.MapReplaced, name)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.maps[name] = m
	d.forget(use)
	return nil
}

// pinAgain pins a map at a further path.
func pinAgain(m *ebpf.Map, path string) error {
	other, err := m.Clone() // Pin would move the pin that m has
	if err != nil {
		return err
	}
	return errors.Join(other.Pin(path), other.Close())
}

func closeMaps(all map[string]*ebpf.Map) (err error) {
	for _, m := range all {
		err = errors.Join(err, m.Close())
	}
	return err
}
