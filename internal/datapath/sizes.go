package datapath

import (
	"errors"
	"fmt"
	"maps"

	"github.com/cilium/ebpf"

	"weft/internal/state"
)

// spec returns the specification of a program and its maps, with the sizes of the
// options.
func (d *Datapath) spec(p program) (*ebpf.CollectionSpec, error) {
	spec, err := p.spec()
	if err != nil {
		return nil, err
	}
	for _, part := range d.options.Parts {
		if err := part.prepare(spec, d.options.Tables); err != nil {
			return nil, fmt.Errorf("prepare program %s: %w", p.name, err)
		}
	}
	return spec, nil
}

// prepare sets a part's sizes and constants in a program's specification.
func (p Part) prepare(spec *ebpf.CollectionSpec, t state.Tables) error {
	if p.Entries != nil {
		for name, n := range p.Entries(t) {
			if m := spec.Maps[name]; m != nil {
				m.MaxEntries = n
			}
		}
	}
	if p.Constants == nil {
		return nil
	}
	for name, value := range p.Constants(t) {
		if v := spec.Variables[name]; v != nil {
			if err := v.Set(value); err != nil {
				return fmt.Errorf("set %s: %w", name, err)
			}
		}
	}
	return nil
}

// Spec describes a program and its maps as they are compiled.
func Spec(program string) (*ebpf.CollectionSpec, error) {
	p, err := programNamed(program)
	if err != nil {
		return nil, err
	}
	return p.spec()
}

// Sizes are the table sizes that programs are loaded for.
func (d *Datapath) Sizes() state.Tables { return d.options.Tables }

// TakeSizes makes a process that only reads load programs for the existing tables.
func (d *Datapath) TakeSizes() { d.options.Tables = d.Tables() }

// Tables returns the sizes of the existing tables; zero without stateful
// translation, or without offload. Other load-time choices are in no table.
func (d *Datapath) Tables() state.Tables {
	t := state.Tables{Switch: d.options.Tables.Switch, Unused: d.options.Tables.Unused}
	for _, p := range d.options.Parts {
		for name, size := range p.Sizes {
			if m, err := d.Map(name); err == nil && m.MaxEntries() > 1 {
				size(&t, int(m.MaxEntries()))
			}
		}
	}
	return t
}

// Resize gives stateful translation and access tables of other sizes. The new ones
// are empty, and the attached programs have to be replaced by the build for these
// tables.
func (d *Datapath) Resize(t state.Tables) error {
	d.use(t.Unused)
	if d.Tables() == t {
		return nil
	}
	d.options.Tables = t
	fresh := map[string]*ebpf.Map{}
	for _, g := range d.groups() {
		spec, err := d.groupSpec(g)
		if err == nil {
			err = d.renew(g, spec.Maps, d.maps, fresh)
		}
		if err != nil {
			return errors.Join(err, closeMaps(fresh))
		}
	}
	all := maps.Clone(d.maps)
	maps.Copy(all, fresh)
	if err := d.pinMaps(all); err != nil {
		return errors.Join(err, closeMaps(fresh))
	}
	d.swap(fresh)
	for _, p := range d.options.Parts {
		if p.Resized == nil {
			continue
		}
		if err := p.Resized(d); err != nil {
			return err
		}
	}
	return nil
}

// swap replaces maps by those of the same name, and discards loaded programs that
// use the old ones.
func (d *Datapath) swap(fresh map[string]*ebpf.Map) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, m := range fresh {
		d.maps[name].Close()
		d.maps[name] = m
	}
	d.forget(func(string) bool { return true })
}

// use makes programs be loaded from now on without the code for some roles.
func (d *Datapath) use(unused state.Roles) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.options.Tables.Unused != unused {
		d.options.Tables.Unused = unused
		d.forget(servesAll)
	}
}

// forget discards loaded programs, which are loaded again when they are needed; d.mu
// is held. Attached ones stay attached.
func (d *Datapath) forget(which func(program string) bool) {
	for name, prog := range d.loaded {
		if which(name) {
			prog.Close()
			delete(d.loaded, name)
		}
	}
}

// groups are those of all parts.
func (d *Datapath) groups() (all []Group) {
	for _, p := range d.options.Parts {
		all = append(all, p.Groups...)
	}
	return all
}

func (d *Datapath) groupSpec(g Group) (*ebpf.CollectionSpec, error) {
	p, err := programNamed(g.Program)
	if err != nil {
		return nil, err
	}
	return d.spec(p)
}
