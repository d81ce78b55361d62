package fibtable

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weft/internal/datapath"
	"weft/internal/state"
)

// Routes is one generation of the route tables and of the next hops that they point
// to. A generation is filled while packets are routed by another, or by none, and
// takes over with Publish; from then on it is changed in place, as package fib does
// it. So a restarted daemon rebuilds all tables without a wrong answer in between.
//
// One goroutine may use a generation at a time; another may meanwhile use another
// one.
type Routes struct {
	d        Table
	half     uint32
	readOnly bool
	arrays   map[family]map[int]*array
	nexthops []uint64
	memory   []byte // of nexthops
}

// family of addresses, and the name of its outer map.
type family string

const (
	fib4 family = "fib4"
	fib6 family = "fib6"
)

// array is the memory of one table.
type array struct {
	m     *ebpf.Map
	words *datapath.Words
}

// halves is the number of generations that share the arrays of next hops: the one in
// use and the one that is being filled.
const halves = 2

// Routes begins a generation: empty tables of the size that the RouteTables object
// has set, and next hops that all lead to the stack. It is not in use until it is
// published.
func (d Table) Routes() (r *Routes, err error) {
	err = d.core.Exclusive(func() error {
		r, err = d.begin()
		return err
	})
	return r, err
}

func (d Table) begin() (*Routes, error) {
	if _, ok, err := d.routeTables(); err != nil || !ok {
		return nil, errors.Join(errors.New("begin new route tables: their size is not set"), err)
	}
	inUse, err := d.halvesInUse()
	if err != nil {
		return nil, fmt.Errorf("begin new route tables: %w", err)
	}
	r := &Routes{d: d, arrays: map[family]map[int]*array{fib4: {}, fib6: {}}}
	for r.half < halves-1 && inUse[r.half] {
		r.half++
	}
	if err := r.mapNexthops(unix.PROT_READ | unix.PROT_WRITE); err != nil {
		return nil, err
	}
	first, end := r.Range()
	clear(r.nexthops[first:end])
	return r, nil
}

// ViewRoutes returns the generation that routes packets, read-only.
func (d Table) ViewRoutes() (*Routes, error) {
	r := &Routes{d: d, readOnly: true, arrays: map[family]map[int]*array{fib4: {}, fib6: {}}}
	if err := r.mapNexthops(unix.PROT_READ); err != nil {
		return nil, err
	}
	for f := range r.arrays {
		if err := r.open(f); err != nil {
			return nil, errors.Join(err, r.Close())
		}
	}
	return r, nil
}

func (r *Routes) open(f family) error {
	outer, err := r.d.core.Map(string(f))
	if err != nil {
		return err
	}
	inner, err := datapath.InnerMaps(outer)
	if err != nil {
		return err
	}
	for table, m := range inner {
		a := &array{m: m}
		if a.words, err = datapath.ViewWords(m); err != nil {
			return err
		}
		r.arrays[f][table] = a
		r.half = halfOf(m)
	}
	return nil
}

func (r *Routes) mapNexthops(protection int) error {
	m, err := r.d.core.Map("nexthops")
	if err != nil {
		return err
	}
	if r.memory, err = datapath.MapMemory(m, int(m.MaxEntries()*m.ValueSize()), protection); err != nil {
		return err
	}
	// struct nexthop is one word of 64 bits, so that it is written by one store.
	r.nexthops = unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(r.memory))), m.MaxEntries())
	return nil
}

// Close unmaps the memory. Published tables stay.
func (r *Routes) Close() error {
	var errs []error
	for _, arrays := range r.arrays {
		for _, a := range arrays {
			if a.words != nil {
				errs = append(errs, a.words.Close())
			}
			errs = append(errs, a.m.Close())
		}
	}
	r.arrays, r.nexthops = nil, nil
	return errors.Join(append(errs, unix.Munmap(r.memory))...)
}

// Words4 and Words6 are the memory of a table of either family, for package fib. The
// first call creates it, all zero. Those of a view are read-only, and nil if there
// is no such table.
func (r *Routes) Words4(table int) ([]uint32, error) { return r.words(fib4, table) }

// Words6 is Words4 for IPv6.
func (r *Routes) Words6(table int) ([]uint32, error) { return r.words(fib6, table) }

func (r *Routes) words(f family, table int) ([]uint32, error) {
	if table < 0 || table >= state.RouteTablesMax {
		return nil, fmt.Errorf("make route table %d: there are %d", table, state.RouteTablesMax)
	}
	a := r.arrays[f][table]
	switch {
	case a != nil:
		return a.words.Words, nil
	case r.readOnly:
		return nil, nil
	}
	m, err := r.d.newTable(f, r.half)
	if err != nil {
		return nil, fmt.Errorf("make route table %d: %w", table, err)
	}
	words, err := datapath.MapWords(m)
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	r.arrays[f][table] = &array{m, words}
	return words.Words, nil
}

// Tables lists the tables of either family that this generation has.
func (r *Routes) Tables() []int {
	all := map[int]bool{}
	for _, arrays := range r.arrays {
		for table := range arrays {
			all[table] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// Range returns the numbers, first <= n < end, that this generation may use: for
// next hops, for neighbours, and for the words of groups alike. Zero is not among
// them.
func (r *Routes) Range() (first, end uint32) {
	size := uint32(len(r.nexthops)) / halves
	return max(1, r.half*size), (r.half + 1) * size
}

func (r *Routes) check(what string, n, count uint32) error {
	first, end := r.Range()
	if r.readOnly {
		return fmt.Errorf("set %s %d: these routes are read-only", what, n)
	}
	if n < first || uint64(n)+uint64(count) > uint64(end) {
		return fmt.Errorf("set %s %d: not within %d to %d", what, n, first, end-1)
	}
	return nil
}

// SetNexthop sets the next hop of a number, by one atomic store.
func (r *Routes) SetNexthop(number uint32, hop state.Nexthop) error {
	if err := r.check("next hop", number, 1); err != nil {
		return err
	}
	atomic.StoreUint64(&r.nexthops[number], uint64(hop.Kind)<<32|uint64(hop.Index))
	return nil
}

// SetNeighbour writes a neighbour. No next hop may lead to it now, nor may one have
// led to it since the last grace period.
func (r *Routes) SetNeighbour(index uint32, n state.NeighbourEntry) error {
	if err := r.check("neighbour", index, 1); err != nil {
		return err
	}
	return r.d.core.Write("neighbours", index, encodeNeighbour(n), false)
}

// SetGroup writes the numbers of a group's members, one of twice the weight twice,
// at index and the len(members) words behind it. Members are not groups themselves.
// The condition of SetNeighbour applies.
func (r *Routes) SetGroup(index uint32, members []uint32) error {
	if err := r.check("group", index, uint32(len(members))+1); err != nil {
		return err
	}
	for i, number := range members {
		if err := r.d.core.Write("nexthop_groups", index+1+uint32(i), number, false); err != nil {
			return err
		}
	}
	return r.d.core.Write("nexthop_groups", index, uint32(len(members)), false)
}

// Nexthop returns the next hop of a number.
func (r *Routes) Nexthop(number uint32) state.Nexthop {
	if number >= uint32(len(r.nexthops)) {
		return state.Nexthop{}
	}
	word := atomic.LoadUint64(&r.nexthops[number])
	return state.Nexthop{Kind: state.NexthopKind(word >> 32), Index: uint32(word)}
}

// NeighbourAt reads a neighbour.
func (r *Routes) NeighbourAt(index uint32) (state.NeighbourEntry, error) {
	m, err := r.d.core.Map("neighbours")
	if err != nil {
		return state.NeighbourEntry{}, err
	}
	var v neighbour
	if err := m.Lookup(index, &v); err != nil {
		return state.NeighbourEntry{}, fmt.Errorf("read neighbour %d: %w", index, err)
	}
	return decodeNeighbour(v), nil
}

// GroupAt reads the numbers of a group's members.
func (r *Routes) GroupAt(index uint32) ([]uint32, error) {
	m, err := r.d.core.Map("nexthop_groups")
	if err != nil {
		return nil, err
	}
	var size uint32
	if err := m.Lookup(index, &size); err != nil {
		return nil, fmt.Errorf("read group %d: %w", index, err)
	}
	members := make([]uint32, min(size, m.MaxEntries()))
	for i := range members {
		if err := m.Lookup(index+1+uint32(i), &members[i]); err != nil {
			return nil, fmt.Errorf("read member %d of group %d: %w", i, index, err)
		}
	}
	return members, nil
}

// Grace returns when no program that saw the earlier state runs any more.
func (r *Routes) Grace() error { return datapath.Grace() }
