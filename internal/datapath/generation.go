package datapath

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"weft/internal/state"
)

// The outer maps fib4 and fib6 hold an array for each route table. All arrays
// of one outer map have the same size, which programs know as a constant: to
// change it, new outer maps take the place of the old ones, and programs are
// replaced when the new tables are filled. What must be known later, also by
// another process, is in the maps' names:
//
//	fib4_2097152   an outer map, for arrays of so many words
//	fib4_half1     an array, whose next hops have numbers in the second half

func outerName(f family, words int) string { return fmt.Sprintf("%s_%d", f, words) }

// outerWords is the size of an outer map's arrays; 0 if it was never set.
func outerWords(m *ebpf.Map, f family) (int, error) {
	info, err := m.Info()
	if err != nil {
		return 0, fmt.Errorf("ask for the name of map %s: %w", f, err)
	}
	size, ok := strings.CutPrefix(info.Name, string(f)+"_")
	if !ok {
		return 0, nil
	}
	return strconv.Atoi(size)
}

// halfOf is the half of the numbers that an array's values are from.
func halfOf(m *ebpf.Map) uint32 {
	info, err := m.Info()
	if err == nil && strings.HasSuffix(info.Name, "_half1") {
		return 1
	}
	return 0
}

// RouteTables gives the size of the route tables, if it is set.
func (d *Datapath) RouteTables() ([]state.RouteTables, error) {
	t, ok, err := d.routeTables()
	if err != nil || !ok {
		return nil, err
	}
	return []state.RouteTables{t}, nil
}

func (d *Datapath) routeTables() (t state.RouteTables, ok bool, err error) {
	for f, words := range map[family]*int{fib4: &t.Words4, fib6: &t.Words6} {
		m, err := d.mapNamed(string(f))
		if err != nil {
			return t, false, err
		}
		if *words, err = outerWords(m, f); err != nil {
			return t, false, err
		}
	}
	return t, t.Words4 != 0 || t.Words6 != 0, nil
}

// setRouteTables makes outer maps for tables of another size. Packets are
// routed by the old ones until new tables are published.
func (d *Datapath) setRouteTables(t state.RouteTables) error {
	for f, words := range map[family]int{fib4: t.Words4, fib6: t.Words6} {
		if err := d.replaceOuter(f, words); err != nil {
			return fmt.Errorf("make %s: %w", t, err)
		}
	}
	return nil
}

// removeRouteTables lets go of all tables: what is attached leaves all packets
// to the stack.
func (d *Datapath) removeRouteTables() error {
	outers, err := d.outersInUse()
	if err != nil {
		return err
	}
	for _, outer := range outers {
		if err := keepOnly(outer, nil); err != nil {
			return fmt.Errorf("remove route tables: %w", err)
		}
	}
	return errors.Join(d.replaceOuter(fib4, 0), d.replaceOuter(fib6, 0))
}

// replaceOuter pins a new outer map in the place of the old one; words 0 is
// that of a datapath that does not route.
func (d *Datapath) replaceOuter(f family, words int) error {
	spec, err := outerSpec(f)
	if err != nil {
		return err
	}
	least := int(spec.InnerMap.ValueSize / 4)
	if words != 0 {
		if words < least {
			return fmt.Errorf("%d words are too few for %s, %d are needed", words, f, least)
		}
		spec.Name, spec.InnerMap.ValueSize = outerName(f, words), uint32(4*words)
	}
	m, err := ebpf.NewMap(spec)
	if err != nil {
		return fmt.Errorf("make map %s: %w", spec.Name, err)
	}
	if d.dir != "" {
		fresh, place := filepath.Join(d.dir, "maps", string(f)+"-new"), filepath.Join(d.dir, "maps", string(f))
		if err := os.Remove(fresh); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		// in one step: there is always one
		if err := errors.Join(m.Pin(fresh), os.Rename(fresh, place)); err != nil {
			return fmt.Errorf("pin map %s: %w", spec.Name, err)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.maps[string(f)] = m
	for name, prog := range d.loaded {
		if routes(name) {
			prog.Close()
			delete(d.loaded, name)
		}
	}
	return nil
}

func outerSpec(f family) (*ebpf.MapSpec, error) {
	p, err := programNamed("ingress_tc")
	if err != nil {
		return nil, err
	}
	spec, err := p.spec()
	if err != nil {
		return nil, err
	}
	outer := spec.Maps[string(f)].Copy()
	outer.Pinning = ebpf.PinNone
	return outer, nil
}

// routes tells whether a program has the route tables.
func routes(program string) bool { return program == "ingress_tc" || program == "ingress_xdp" }

// sizeTables tells a program that is to be loaded the size of the tables. The
// constant is the last offset at which a block may start (bpf/lib/fib.h).
func (d *Datapath) sizeTables(spec *ebpf.CollectionSpec) error {
	for _, f := range []family{fib4, fib6} {
		last := spec.Variables[string(f)+"_last"]
		outer := d.maps[string(f)]
		if last == nil || outer == nil {
			continue
		}
		words, err := outerWords(outer, f)
		if err != nil || words == 0 {
			return err
		}
		inner := spec.Maps[string(f)].InnerMap
		var least uint32
		if err := last.Get(&least); err != nil {
			return err
		}
		slack := inner.ValueSize/4 - least
		inner.ValueSize = uint32(4 * words)
		if err := last.Set(uint32(words) - slack); err != nil {
			return err
		}
	}
	return nil
}

// newTable makes an array that fits the outer map.
func (d *Datapath) newTable(f family, half uint32) (*ebpf.Map, error) {
	spec, err := outerSpec(f)
	if err != nil {
		return nil, err
	}
	outer, err := d.mapNamed(string(f))
	if err != nil {
		return nil, err
	}
	words, err := outerWords(outer, f)
	if err != nil {
		return nil, err
	}
	inner := spec.InnerMap
	inner.Name, inner.ValueSize = fmt.Sprintf("%s_half%d", f, half), uint32(4*words)
	return ebpf.NewMap(inner)
}

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
			if m.Type() == ebpf.ArrayOfMaps {
				all = append(all, m)
			}
		}
		return nil
	})
	return all, err
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
