package datapath

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// Publish has packets routed by this generation from now on. What it replaces
// is in use no more when Publish returns, but for the memory of an older
// Routes. It is called again after a table was added.
func (r *Routes) Publish() error {
	if r.readOnly {
		return errors.New("publish routes: these are only looked at")
	}
	r.d.changing.Lock()
	defer r.d.changing.Unlock()
	for f, arrays := range r.arrays {
		outer, err := r.d.mapNamed(string(f))
		if err != nil {
			return err
		}
		if err := keepOnly(outer, arrays); err != nil {
			return fmt.Errorf("publish %s: %w", f, err)
		}
	}
	return r.d.refreshPrograms()
}

// keepOnly makes arrays the content of an outer map. The kernel waits for a
// grace period in each change.
func keepOnly(outer *ebpf.Map, arrays map[int]*array) error {
	now, err := innerMaps(outer)
	if err != nil {
		return err
	}
	defer closeAll(now)
	for table, a := range arrays {
		if same(now[table], a.m) {
			continue
		}
		if err := outer.Put(uint32(table), a.m); err != nil {
			return fmt.Errorf("put table %d into %s: %w", table, outer, err)
		}
	}
	for table := range now {
		if arrays[table] != nil {
			continue
		}
		if err := outer.Delete(uint32(table)); err != nil {
			return fmt.Errorf("take table %d out of %s: %w", table, outer, err)
		}
	}
	return nil
}

func same(a, b *ebpf.Map) bool {
	if a == nil || b == nil {
		return false
	}
	idA, okA := mapID(a)
	idB, okB := mapID(b)
	return okA && okB && idA == idB
}

func mapID(m *ebpf.Map) (ebpf.MapID, bool) {
	info, err := m.Info()
	if err != nil {
		return 0, false
	}
	return info.ID()
}

func closeAll(all map[int]*ebpf.Map) {
	for _, m := range all {
		m.Close()
	}
}

// innerMaps opens the arrays in an outer map, by table.
func innerMaps(outer *ebpf.Map) (map[int]*ebpf.Map, error) {
	found := map[int]*ebpf.Map{}
	for table := range outer.MaxEntries() {
		var id uint32
		err := outer.Lookup(table, &id)
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			continue
		}
		if err != nil {
			closeAll(found)
			return nil, fmt.Errorf("read %s: %w", outer, err)
		}
		m, err := ebpf.NewMapFromID(ebpf.MapID(id))
		if errors.Is(err, os.ErrNotExist) {
			continue // replaced since
		}
		if err != nil {
			closeAll(found)
			return nil, fmt.Errorf("open table %d of %s: %w", table, outer, err)
		}
		found[int(table)] = m
	}
	return found, nil
}

// halvesInUse tells which numbers of next hops packets may meet.
func (d *Datapath) halvesInUse() (map[uint32]bool, error) {
	outers, err := d.outersInUse()
	if err != nil {
		return nil, err
	}
	used := map[uint32]bool{}
	for _, outer := range outers {
		inner, err := innerMaps(outer)
		if err != nil {
			return nil, err
		}
		for _, m := range inner {
			used[halfOf(m)] = true
		}
		closeAll(inner)
	}
	return used, nil
}

// outersInUse gives the outer maps of now, and those that attached programs
// still have.
func (d *Datapath) outersInUse() ([]*ebpf.Map, error) {
	var all []*ebpf.Map
	for _, f := range []family{fib4, fib6} {
		m, err := d.mapNamed(string(f))
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	err := d.eachRouting(func(_ pin, _ link.Link, prog *ebpf.ProgramInfo) error {
		ids, _ := prog.MapIDs()
		for _, id := range ids {
			m, err := ebpf.NewMapFromID(id)
			if err != nil {
				return fmt.Errorf("open map %d: %w", id, err)
			}
			if isRouteOuter(m) {
				all = append(all, m)
				continue
			}
			m.Close()
		}
		return nil
	})
	return all, err
}

// isRouteOuter tells the outer maps of route tables from others that a program
// has, by their names.
func isRouteOuter(m *ebpf.Map) bool {
	if m.Type() != ebpf.ArrayOfMaps {
		return false
	}
	info, err := m.Info()
	return err != nil || strings.HasPrefix(info.Name, string(fib4)) || strings.HasPrefix(info.Name, string(fib6))
}

// refreshPrograms replaces attached programs that have outer maps of before.
func (d *Datapath) refreshPrograms() error {
	var now []ebpf.MapID
	for _, f := range []family{fib4, fib6} {
		m, err := d.mapNamed(string(f))
		if err != nil {
			return err
		}
		id, ok := mapID(m)
		if !ok {
			return fmt.Errorf("the kernel does not tell the number of map %s", f)
		}
		now = append(now, id)
	}
	return d.eachRouting(func(p pin, l link.Link, info *ebpf.ProgramInfo) error {
		ids, _ := info.MapIDs()
		if slices.Contains(ids, now[0]) && slices.Contains(ids, now[1]) {
			return nil
		}
		source, err := programNamed(p.program)
		if err != nil {
			return err
		}
		prog, err := d.load(source)
		if err != nil {
			return err
		}
		if err := l.Update(prog); err != nil {
			return fmt.Errorf("replace %s on %s: %w", p.program, deviceName(p.index), err)
		}
		return nil
	})
}

// eachRouting visits the attached programs that may have route tables.
func (d *Datapath) eachRouting(visit func(pin, link.Link, *ebpf.ProgramInfo) error) error {
	if d.dir == "" {
		return nil
	}
	pins, err := d.pins()
	if err != nil {
		return err
	}
	for _, p := range pins {
		if !routes(p.program) {
			continue
		}
		if err := d.visit(p, visit); err != nil {
			return fmt.Errorf("%s on %s: %w", p.program, deviceName(p.index), err)
		}
	}
	return nil
}

func (d *Datapath) visit(p pin, visit func(pin, link.Link, *ebpf.ProgramInfo) error) error {
	l, err := link.LoadPinnedLink(d.pinPath(p), nil)
	if err != nil {
		return fmt.Errorf("open its link: %w", err)
	}
	defer l.Close()
	info, err := l.Info()
	if err != nil {
		return fmt.Errorf("ask about its link: %w", err)
	}
	prog, err := ebpf.NewProgramFromID(info.Program)
	if err != nil {
		return fmt.Errorf("open the program: %w", err)
	}
	defer prog.Close()
	about, err := prog.Info()
	if err != nil {
		return fmt.Errorf("ask about the program: %w", err)
	}
	return visit(p, l, about)
}
