package nat64table

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"weft/internal/datapath"
	"weft/internal/state"
)

// ringSize is the size of the ring buffer of events in bytes: some 60,000 events.
const ringSize = 4 << 20

func stateMaps() []string {
	return []string{
		"nat64_bib6", "nat64_bib4", "nat64_subscribers", "nat64_sessions", "nat64_slots", "nat64_slots_free", "nat64_fast_sets",
		"nat64_peers", "nat64_sweep_states", "nat64_usages",
		"nat64_log_events",
	}
}

// startSweep makes the kernel end expired sessions from now on, whether weft runs or
// not. Without stateful translation there are none.
func (d Table) startSweep() error {
	if d.core.Sizes().Sessions == 0 {
		return d.runSweep(sweepStop)
	}
	return d.runSweep(sweepStart)
}

// StopSweep stops that timer: the kernel ends no more sessions by itself.
func (d Table) StopSweep() error { return d.runSweep(sweepStop) }

// Sweep ends all sessions that have expired by now.
func (d Table) Sweep() error { return d.runSweep(sweepAll) }

func (d Table) runSweep(mark uint32) error {
	prog, err := d.core.Load("nat64_sweep")
	if err != nil {
		return err
	}
	verdict, err := prog.Run(&ebpf.RunOptions{Data: make([]byte, 64), DataOut: make([]byte, 128), Context: datapath.SKBuff{Mark: mark}})
	if err == nil && verdict != 0 {
		err = errors.New("the kernel refused the timer")
	}
	if err != nil {
		return fmt.Errorf("run program nat64_sweep: %w", err)
	}
	return nil
}

// Binders lists the NAT allocators of the stateful translators, by id.
func (d Table) Allocators() ([]state.Allocator, error) {
	m, err := d.core.Map("nat64_stateful_configs")
	if err != nil {
		return nil, err
	}
	var list []state.Allocator
	for id := range m.MaxEntries() {
		var v allocator
		if err := m.Lookup(id, &v); err != nil {
			return nil, fmt.Errorf("read NAT allocator %d: %w", id, err)
		}
		if v.Addresses != 0 {
			list = append(list, decodeAllocator(int(id), v))
		}
	}
	return list, nil
}

func (d Table) writeAllocator(b state.Allocator, remove bool) error {
	v := encodeAllocator(b)
	if remove {
		v = allocator{}
	}
	return d.core.Write("nat64_stateful_configs", uint32(b.ID), v, false)
}

// Statics lists the bindings of weft.toml.
func (d Table) Statics() ([]state.StaticBinding, error) {
	return datapath.Collect(d.core, "nat64_statics6", decodeStatic)
}

// writeStatic writes or removes both directions of a static binding.
func (d Table) writeStatic(s state.StaticBinding, remove bool) error {
	six, four := encodeBib6Key(s.Translator, s.Protocol, s.IPv6), encodeBib4Key(s.Protocol, s.IPv4)
	var old bib4Key
	m, err := d.core.Map("nat64_statics6")
	if err != nil {
		return err
	}
	if m.Lookup(six, &old) == nil && old != four {
		if err := d.core.Write("nat64_statics4", old, nil, true); err != nil {
			return err
		}
	}
	if err := d.core.Write("nat64_statics4", four, six, remove); err != nil {
		return err
	}
	return d.core.Write("nat64_statics6", six, four, remove)
}
