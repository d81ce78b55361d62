package datapathtest

// What all benches of a process share: the maps, and the programs that are loaded.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weft/fib"
	"weft/internal/datapath"
	"weft/internal/state"
)

// machine is programs over one set of maps that are pinned nowhere. They are loaded
// once for all tests of a package, which run one after the other, and when the first
// needs them: the verifier takes its time.
type machine struct {
	datapath *datapath.Datapath
	programs map[string]*ebpf.Program
}

// common is that of this process, with the tables that the first test has asked for.
var common *machine

func loaded(parts []datapath.Part) (*machine, error) {
	if common != nil {
		return common, nil
	}
	// so many flows that the numbers of their lines take three bytes
	tables := state.Tables{Bindings: 1000, Sessions: 4000, Subscribers: 1024, Flows: 70000}
	d, err := datapath.Unpinned(datapath.Options{UnlimitedSlow: true, TestClock: true, Tables: tables, Parts: parts})
	if err != nil {
		return nil, err
	}
	routes := state.RouteTables{Words4: fib.MinWords4 + 1<<16, Words6: fib.MinWords6 + 1<<16}
	if err := d.Apply(context.Background(), state.Step{Op: state.Add, Object: routes}); err != nil {
		return nil, err
	}
	common = &machine{d, map[string]*ebpf.Program{}}
	return common, nil
}

// load returns a program.
func (m *machine) load(name string) (*ebpf.Program, error) {
	prog, err := m.datapath.Load(name)
	if err == nil {
		m.programs[name] = prog
	}
	return prog, err
}

// forgetPaths invalidates the next-hop cache: another test may have had the same
// addresses in another network.
func (m *machine) forgetPaths() error {
	for _, prog := range m.programs {
		info, err := prog.Info()
		if err != nil {
			return err
		}
		ids, _ := info.MapIDs()
		for _, id := range ids {
			if err := forgetNextHops(id); err != nil {
				return fmt.Errorf("empty map %d of %s: %w", id, info.Name, err)
			}
		}
	}
	return nil
}

func forgetNextHops(id ebpf.MapID) error {
	m, err := ebpf.NewMapFromID(id)
	if err != nil {
		return err
	}
	defer m.Close()
	if info, err := m.Info(); err != nil || info.Name != "nexthop_cache" {
		return err
	}
	empty := make([][]byte, ebpf.MustPossibleCPU())
	for i := range empty {
		empty[i] = make([]byte, m.ValueSize())
	}
	for at := range m.MaxEntries() {
		if err := m.Put(at, empty); err != nil {
			return err
		}
	}
	return nil
}

// empty deletes what another test has written into the tables: all entries of hash
// tables, and those of the arrays that are listed here.
func (m *machine) empty() error {
	return m.datapath.EachMap(func(name string, m *ebpf.Map) (err error) {
		switch m.Type() {
		case ebpf.Hash, ebpf.PerCPUHash, ebpf.LRUHash, ebpf.LPMTrie:
			err = EmptyMap(m)
		case ebpf.Array, ebpf.PerCPUArray:
			err = emptyArray(name, m)
		case ebpf.ArrayOfMaps, ebpf.RingBuf, ebpf.Stack:
		default:
			err = fmt.Errorf("it is a %s, and nothing says how such a one is emptied", m.Type())
		}
		if err != nil {
			return fmt.Errorf("empty map %s: %w", name, err)
		}
		return nil
	})
}

func emptyArray(name string, m *ebpf.Map) error {
	switch {
	case slices.Contains([]string{"flow_lines4", "flow_lines6", "flow_index"}, name):
		memory, err := datapath.MapMemory(m, int(m.MaxEntries()*m.ValueSize()), unix.PROT_READ|unix.PROT_WRITE)
		if err != nil {
			return err
		}
		clear(memory)
		return unix.Munmap(memory)
	case slices.Contains([]string{"l2tp_lines", "nat64_translators"}, name):
		for at := range m.MaxEntries() {
			if err := m.Put(at, make([]byte, m.ValueSize())); err != nil {
				return err
			}
		}
		return nil
	case slices.Contains(keptArrays, name), strings.HasPrefix(name, "."):
		return nil
	}
	return errors.New("keptArrays does not have it: is it to be emptied here?")
}

func EmptyMap(m *ebpf.Map) error {
	for {
		key, err := m.NextKeyBytes(nil)
		if err != nil || key == nil {
			return err
		}
		if err := m.Delete(key); err != nil {
			return fmt.Errorf("empty map %s: %w", m, err)
		}
	}
}
