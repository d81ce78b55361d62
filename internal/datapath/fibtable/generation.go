package fibtable

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf"

	"weft/internal/datapath"
	"weft/internal/state"
)

// The outer maps fib4 and fib6 hold an array for each route table. All arrays of one
// outer map have the same size, which programs have as a load-time constant: to
// change it, new outer maps replace the old ones, and programs are replaced when the
// new tables are filled. The maps' names hold what another process must know later:
//
//	fib4v1_200000  an outer map, for arrays of that many words (hexadecimal) in
//	               the first layout of package fib
//	fib4_half1     an array, whose next hops have numbers in the second half

func outerName(f family, layout uint32, words int) string {
	return fmt.Sprintf("%sv%d_%x", f, layout, words)
}

// outerSize is the layout and the size of an outer map's arrays; words is 0 if it
// was never set.
func outerSize(m *ebpf.Map, f family) (layout uint32, words int, err error) {
	info, err := m.Info()
	if err != nil {
		return 0, 0, fmt.Errorf("ask for the name of map %s: %w", f, err)
	}
	if n, _ := fmt.Sscanf(info.Name, string(f)+"v%d_%x", &layout, &words); n != 2 {
		return 0, 0, nil
	}
	return layout, words, nil
}

// forgetLayout replaces outer maps of another version of weft, whose arrays this
// version's programs would misread. Attached programs keep using them until they are
// replaced.
func (d Table) forgetLayout() error {
	for _, f := range []family{fib4, fib6} {
		_, layout, err := outerSpec(f)
		if err != nil {
			return err
		}
		m, err := d.core.Map(string(f))
		if err != nil {
			return err
		}
		old, words, err := outerSize(m, f)
		if err == nil && words != 0 && old != layout {
			err = d.replaceOuter(f, 0)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// halfOf is the half of the number range that an array's values are from.
func halfOf(m *ebpf.Map) uint32 {
	info, err := m.Info()
	if err == nil && strings.HasSuffix(info.Name, "_half1") {
		return 1
	}
	return 0
}

// RouteTables returns the size of the route tables, if it is set.
func (d Table) RouteTables() ([]state.RouteTables, error) {
	t, ok, err := d.routeTables()
	if err != nil || !ok {
		return nil, err
	}
	return []state.RouteTables{t}, nil
}

func (d Table) routeTables() (t state.RouteTables, ok bool, err error) {
	for f, words := range map[family]*int{fib4: &t.Words4, fib6: &t.Words6} {
		m, err := d.core.Map(string(f))
		if err != nil {
			return t, false, err
		}
		if _, *words, err = outerSize(m, f); err != nil {
			return t, false, err
		}
	}
	return t, t.Words4 != 0 || t.Words6 != 0, nil
}

func (d Table) applyRouteTables(t state.RouteTables, remove bool) error {
	if remove {
		return d.removeRouteTables()
	}
	return d.setRouteTables(t)
}

// setRouteTables makes outer maps for tables of another size. The old ones route
// packets until new tables are published.
func (d Table) setRouteTables(t state.RouteTables) error {
	for f, words := range map[family]int{fib4: t.Words4, fib6: t.Words6} {
		if err := d.replaceOuter(f, words); err != nil {
			return fmt.Errorf("make %s: %w", t, err)
		}
	}
	return nil
}

// removeRouteTables removes all tables: attached programs pass all packets to the
// stack.
func (d Table) removeRouteTables() error {
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

// replaceOuter pins a new outer map in the place of the old one; words 0 is that of
// a datapath without routing.
func (d Table) replaceOuter(f family, words int) error {
	spec, layout, err := outerSpec(f)
	if err != nil {
		return err
	}
	least := int(spec.InnerMap.ValueSize / 4)
	if words != 0 {
		if words < least {
			return fmt.Errorf("%d words are too few for %s, %d are needed", words, f, least)
		}
		spec.Name, spec.InnerMap.ValueSize = outerName(f, layout, words), uint32(4*words)
	}
	m, err := ebpf.NewMap(spec)
	if err != nil {
		return fmt.Errorf("make map %s: %w", spec.Name, err)
	}
	return d.core.ReplaceMap(string(f), m, routes)
}

// outerSpec describes an outer map as this version's programs need it, and the
// layout in which they read its arrays.
func outerSpec(f family) (outer *ebpf.MapSpec, layout uint32, err error) {
	spec, err := datapath.Spec("ingress_tc")
	if err != nil {
		return nil, 0, err
	}
	outer = spec.Maps[string(f)].Copy()
	outer.Pinning = ebpf.PinNone
	return outer, layout, spec.Variables["fib_layout"].Get(&layout)
}

// routes reports whether a program uses the route tables.
func routes(program string) bool { return program == "ingress_tc" || program == "ingress_xdp" }

// sizeTables sets the size of the tables in a program that is to be loaded. The
// constant is the last offset at which a block may start (bpf/lib/fib.h).
func sizeTables(maps map[string]*ebpf.Map, spec *ebpf.CollectionSpec) error {
	for _, f := range []family{fib4, fib6} {
		last := spec.Variables[string(f)+"_last"]
		outer := maps[string(f)]
		if last == nil || outer == nil {
			continue
		}
		_, words, err := outerSize(outer, f)
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
func (d Table) newTable(f family, half uint32) (*ebpf.Map, error) {
	spec, _, err := outerSpec(f)
	if err != nil {
		return nil, err
	}
	outer, err := d.core.Map(string(f))
	if err != nil {
		return nil, err
	}
	_, words, err := outerSize(outer, f)
	if err != nil {
		return nil, err
	}
	inner := spec.InnerMap
	inner.Name, inner.ValueSize = fmt.Sprintf("%s_half%d", f, half), uint32(4*words)
	return ebpf.NewMap(inner)
}
