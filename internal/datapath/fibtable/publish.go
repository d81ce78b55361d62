package fibtable

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf"

	"weft/internal/datapath"
)

// Publish makes packets be routed by this generation. When it returns, the
// generation that it replaces is not in use any more, except for the memory of an
// older Routes. It is called again after a table was added.
func (r *Routes) Publish() error {
	if r.readOnly {
		return errors.New("publish routes: these are read-only")
	}
	return r.d.core.Exclusive(r.publish)
}

func (r *Routes) publish() error {
	for f, arrays := range r.arrays {
		outer, err := r.d.core.Map(string(f))
		if err != nil {
			return err
		}
		if err := keepOnly(outer, arrays); err != nil {
			return fmt.Errorf("publish %s: %w", f, err)
		}
	}
	return r.d.refreshPrograms()
}

// keepOnly makes arrays the only content of an outer map. The kernel waits for a
// grace period in each change.
func keepOnly(outer *ebpf.Map, arrays map[int]*array) error {
	now, err := datapath.InnerMaps(outer)
	if err != nil {
		return err
	}
	defer datapath.CloseInner(now)
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
	idA, okA := datapath.MapID(a)
	idB, okB := datapath.MapID(b)
	return okA && okB && idA == idB
}

// halvesInUse returns the halves of the number range that packets may use.
func (d Table) halvesInUse() (map[uint32]bool, error) {
	outers, err := d.outersInUse()
	if err != nil {
		return nil, err
	}
	used := map[uint32]bool{}
	for _, outer := range outers {
		inner, err := datapath.InnerMaps(outer)
		if err != nil {
			return nil, err
		}
		for _, m := range inner {
			used[halfOf(m)] = true
		}
		datapath.CloseInner(inner)
	}
	return used, nil
}

// outersInUse returns the current outer maps, and those that attached programs still
// use.
func (d Table) outersInUse() ([]*ebpf.Map, error) {
	var all []*ebpf.Map
	for _, f := range []family{fib4, fib6} {
		m, err := d.core.Map(string(f))
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	err := d.core.EachAttached(routes, func(a datapath.Attached) error {
		ids, _ := a.Info.MapIDs()
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

// isRouteOuter distinguishes the outer maps of route tables from other maps of a
// program, by their names.
func isRouteOuter(m *ebpf.Map) bool {
	if m.Type() != ebpf.ArrayOfMaps {
		return false
	}
	info, err := m.Info()
	return err != nil || strings.HasPrefix(info.Name, string(fib4)) || strings.HasPrefix(info.Name, string(fib6))
}

// refreshPrograms replaces attached programs that use old outer maps.
func (d Table) refreshPrograms() error {
	var now []ebpf.MapID
	for _, f := range []family{fib4, fib6} {
		m, err := d.core.Map(string(f))
		if err != nil {
			return err
		}
		id, ok := datapath.MapID(m)
		if !ok {
			return fmt.Errorf("the kernel does not report the id of map %s", f)
		}
		now = append(now, id)
	}
	return d.core.EachAttached(routes, func(a datapath.Attached) error {
		ids, _ := a.Info.MapIDs()
		if slices.Contains(ids, now[0]) && slices.Contains(ids, now[1]) {
			return nil
		}
		return a.Replace()
	})
}
