// Package guardtable is the typed tables of guards: which interfaces are guarded, and
// the list of sources.
package guardtable

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"

	"github.com/cilium/ebpf"

	"weft/internal/datapath"
	"weft/internal/state"
)

// Table is the tables of guards in a datapath.
type Table struct{ core *datapath.Datapath }

// Of returns those of a datapath.
func Of(d *datapath.Datapath) Table { return Table{d} }

// Part declares the tables of guards.
func Part() datapath.Part {
	return datapath.Part{Kinds: []datapath.Kind{datapath.KindOf(Of, (Table).Guards, (Table).writeGuard)}}
}

type guardValue = datapath.IngressTCGuardInterface

const second = 1_000_000_000

// in the nanoseconds of the programs' clock

// encodeGuard encodes a guard. It does not set the key of the hash, which is chosen
// when a guard is first written.
func encodeGuard(g state.Guard) guardValue {
	var v guardValue
	for flag, on := range map[uint32]bool{
		guardBogons: g.Bogons, guardXDP: g.XDP,
		guardLoose: g.Reverse == state.ReverseLoose, guardStrict: g.Reverse == state.ReverseStrict,
	} {
		if on {
			v.Flags |= flag
		}
	}
	for i, r := range g.Rates {
		if r.PerSecond > 0 {
			v.Rates[i].Interval = uint64(second / r.PerSecond)
			v.Rates[i].Burst = uint64(r.Burst-1) * v.Rates[i].Interval
			v.Rates[i].PerSecond, v.Rates[i].Packets = uint32(r.PerSecond), uint32(r.Burst)
		}
	}
	return v
}

func decodeGuard(device string, v guardValue) state.Guard {
	g := state.Guard{Device: device, Bogons: v.Flags&guardBogons != 0, XDP: v.Flags&guardXDP != 0}
	switch {
	case v.Flags&guardStrict != 0:
		g.Reverse = state.ReverseStrict
	case v.Flags&guardLoose != 0:
		g.Reverse = state.ReverseLoose
	}
	for i, r := range v.Rates {
		g.Rates[i] = state.GuardRate{PerSecond: int(r.PerSecond), Burst: int(r.Packets)}
	}
	return g
}

// Guards lists the interfaces with a guard.
func (d Table) Guards() ([]state.Guard, error) {
	return datapath.Collect(d.core, "guard_interfaces", func(index uint32, v guardValue) state.Guard { return decodeGuard(datapath.DeviceName(int(index)), v) })
}

func (d Table) writeGuard(g state.Guard, remove bool) error {
	index, err := datapath.DeviceIndex(g.Device)
	if err != nil {
		return err
	}
	v := encodeGuard(g)
	v.Key = rand.Uint64()
	return d.core.Write("guard_interfaces", uint32(index), v, remove)
}

// guardKey is a key of a list's trie: the prefix length in host byte order, the
// address in network byte order.
func guardKey(p netip.Prefix) []byte {
	return append(binary.NativeEndian.AppendUint32(nil, uint32(p.Bits())), p.Masked().Addr().AsSlice()...)
}

func guardPrefix(key []byte) netip.Prefix {
	a, _ := netip.AddrFromSlice(key[4:])
	return netip.PrefixFrom(a, int(binary.NativeEndian.Uint32(key)))
}

// guardRoom is the number of entries that a list can take beyond those it is made
// with, for prefixes that are blocked one by one.
const guardRoom = 65536

// guardBatch is the number of entries that one system call writes.
const guardBatch = 16384

// SetGuardList replaces the list in one step for each family: packets see the old or
// the new list. Prefixes must be masked, and unique.
func (d Table) SetGuardList(entries []state.GuardEntry) error {
	var keys [2][]byte
	var values [2][]uint32
	for _, e := range entries {
		i := 0
		if e.Prefix.Addr().Is6() {
			i = 1
		}
		keys[i] = append(keys[i], guardKey(e.Prefix)...)
		values[i] = append(values[i], uint32(e.Listed))
	}
	for i, outer := range []string{"guard_list4", "guard_list6"} {
		if err := d.replaceGuardList(outer, []int{8, 20}[i], keys[i], values[i]); err != nil {
			return fmt.Errorf("write %d entries to %s: %w", len(values[i]), outer, err)
		}
	}
	return nil
}

func (d Table) replaceGuardList(name string, size int, keys []byte, values []uint32) error {
	outer, err := d.core.Map(name)
	if err != nil {
		return err
	}
	if len(values) == 0 {
		return ignoreAbsent(outer.Delete(uint32(0)))
	}
	inner, err := newGuardList(name, size, len(values)+guardRoom)
	if err != nil {
		return err
	}
	defer inner.Close()
	for at := 0; at < len(values); at += guardBatch {
		end := min(at+guardBatch, len(values))
		if _, err := inner.BatchUpdate(split(keys[at*size:end*size], size), values[at:end], nil); err != nil {
			return err
		}
	}
	return outer.Put(uint32(0), inner)
}

// split converts keys to a slice of arrays, which the library passes on without
// copying each by itself.
func split(keys []byte, size int) any {
	n := len(keys) / size
	if size == 8 {
		list := make([][8]byte, n)
		for i := range list {
			copy(list[i][:], keys[i*size:])
		}
		return list
	}
	list := make([][20]byte, n)
	for i := range list {
		copy(list[i][:], keys[i*size:])
	}
	return list
}

func newGuardList(name string, size, entries int) (*ebpf.Map, error) {
	spec, err := datapath.Spec("ingress_tc")
	if err != nil {
		return nil, err
	}
	inner := spec.Maps[name].InnerMap.Copy()
	inner.Name, inner.MaxEntries = name, uint32(entries)
	return ebpf.NewMap(inner)
}

// PutGuardEntry changes one entry of the list in use.
func (d Table) PutGuardEntry(e state.GuardEntry) error {
	name, list, err := d.guardList(e.Prefix)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return d.replaceGuardList(name, len(guardKey(e.Prefix)), guardKey(e.Prefix), []uint32{uint32(e.Listed)})
	}
	if err != nil {
		return fmt.Errorf("list %s: %w", e.Prefix, err)
	}
	defer list.Close()
	if err := list.Put(guardKey(e.Prefix), uint32(e.Listed)); err != nil {
		return fmt.Errorf("list %s: %w", e.Prefix, err)
	}
	return nil
}

// RemoveGuardEntry removes a prefix from the list in use.
func (d Table) RemoveGuardEntry(p netip.Prefix) error {
	_, list, err := d.guardList(p)
	if err == nil {
		defer list.Close()
		err = list.Delete(guardKey(p))
	}
	if err = ignoreAbsent(err); err != nil {
		return fmt.Errorf("take %s off the list: %w", p, err)
	}
	return nil
}

// GuardEntryFor returns the list's entry for an address, that of the longest prefix;
// ok is false if there is none.
func (d Table) GuardEntryFor(a netip.Addr) (said state.Listed, ok bool, err error) {
	p := netip.PrefixFrom(a, a.BitLen())
	_, list, err := d.guardList(p)
	if err == nil {
		defer list.Close()
		err = list.Lookup(guardKey(p), (*uint32)(&said))
	}
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return 0, false, nil
	}
	return said, err == nil, err
}

// GuardLetsIn returns the prefixes that the list in use does not block as a whole:
// it has an exception for them, or no entry.
func (d Table) GuardLetsIn(prefixes []netip.Prefix) (free []netip.Prefix, err error) {
	var lists [2]*ebpf.Map
	for i, any := range []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)} {
		var list *ebpf.Map
		_, list, err := d.guardList(any)
		if ignoreAbsent(err) != nil {
			return nil, fmt.Errorf("open the guard's list: %w", err)
		}
		if err == nil {
			defer list.Close()
			lists[i] = list
		}
	}
	for _, p := range prefixes {
		list := lists[0]
		if p.Addr().Is6() {
			list = lists[1]
		}
		var said state.Listed
		if list != nil {
			if err := ignoreAbsent(list.Lookup(guardKey(p), (*uint32)(&said))); err != nil {
				return nil, fmt.Errorf("look %s up in the guard's list: %w", p, err)
			}
		}
		if said&state.ListedBlocked == 0 {
			free = append(free, p)
		}
	}
	return free, nil
}

// GuardEntries lists the list in use.
func (d Table) GuardEntries() (entries []state.GuardEntry, err error) {
	for _, any := range []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)} {
		_, list, err := d.guardList(any)
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		key := make([]byte, len(guardKey(any)))
		var value uint32
		all := list.Iterate()
		for all.Next(&key, &value) {
			entries = append(entries, state.GuardEntry{Prefix: guardPrefix(key), Listed: state.Listed(value)})
		}
		if err := errors.Join(all.Err(), list.Close()); err != nil {
			return nil, fmt.Errorf("read the guard's list: %w", err)
		}
	}
	return entries, nil
}

// guardList opens the list in use of a prefix's family.
func (d Table) guardList(p netip.Prefix) (name string, list *ebpf.Map, err error) {
	name = "guard_list4"
	if p.Addr().Is6() {
		name = "guard_list6"
	}
	outer, err := d.core.Map(name)
	if err != nil {
		return name, nil, err
	}
	return name, list, outer.Lookup(uint32(0), &list)
}

func ignoreAbsent(err error) error {
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil
	}
	return err
}
