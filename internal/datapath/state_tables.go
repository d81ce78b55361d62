package datapath

import (
	"errors"
	"fmt"
	"maps"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weft/internal/state"
)

// ringSize is how many bytes of events wait for a reader: some 60,000.
const ringSize = 4 << 20

// spec gives the specification of a program and its maps, those of stateful
// translation as large as the options say.
func (d *Datapath) spec(p program) (*ebpf.CollectionSpec, error) {
	spec, err := p.spec()
	if err != nil {
		return nil, err
	}
	for name, m := range spec.Maps {
		switch name {
		case "nat64_bib6", "nat64_bib4", "nat64_subscribers":
			m.MaxEntries = uint32(max(d.options.Tables.Bindings, 1))
		case "nat64_sessions", "nat64_slots", "nat64_slots_free", "nat64_peers":
			m.MaxEntries = uint32(max(d.options.Tables.Sessions, 1))
		case "l2tp_tunnels", "l2tp_states":
			m.MaxEntries = uint32(max(d.options.Tables.Subscribers, 1))
		case "l2tp_sessions":
			m.MaxEntries = uint32(max((d.options.Tables.Subscribers+sessionGroup-1)/sessionGroup, 1))
		case "l2tp_lines":
			m.MaxEntries = ownerLinesFor(d.options.Tables.Subscribers)
		case "l2tp_owners4", "l2tp_owners6":
			m.MaxEntries = uint32(max(4*d.options.Tables.Subscribers, 1))
		case "nat64_fast_sets":
			m.MaxEntries = fastPieces(d.options.Tables)
		case "nat64_log_events":
			if d.options.Tables.Sessions > 0 {
				m.MaxEntries = ringSize
			}
		case "flow_refusals":
			m.MaxEntries = flowRefusals(d.options.Tables.Flows)
		case "flow_passes":
			m.MaxEntries = uint32(max(d.options.Tables.Flows, 1))
		case "flow_entered":
			m.MaxEntries = uint32(min(flowsEntered, max(d.options.Tables.Flows, 1)))
		case "flow_lines4", "flow_lines6":
			m.MaxEntries = flowLines(d.options.Tables.Flows)
		case "flow_index":
			m.MaxEntries = families * flowBuckets(d.options.Tables.Flows)
		case "flow_events":
			m.MaxEntries = flowEventBytes(d.options.Tables.Flows)
		case "nat64_changes":
			if d.options.Tables.Sessions > 0 {
				m.MaxEntries = changesBytes
			}
		}
	}
	if err := setFast(spec, d.options.Tables); err != nil {
		return nil, fmt.Errorf("prepare program %s: %w", p.name, err)
	}
	if v := spec.Variables["flow_buckets"]; v != nil {
		if err := v.Set(flowBuckets(d.options.Tables.Flows)); err != nil {
			return nil, fmt.Errorf("set flow_buckets of program %s: %w", p.name, err)
		}
	}
	if v := spec.Variables["interface_unused"]; v != nil {
		if err := v.Set(unusedFlags(d.options.Tables.Unused)); err != nil {
			return nil, fmt.Errorf("set interface_unused of program %s: %w", p.name, err)
		}
	}
	if v := spec.Variables["l2tp_lines_mask"]; v != nil {
		if err := v.Set(ownerLinesFor(d.options.Tables.Subscribers)/2 - 1); err != nil {
			return nil, fmt.Errorf("set l2tp_lines_mask of program %s: %w", p.name, err)
		}
	}
	if v := spec.Variables["dsa_format"]; v != nil {
		if err := v.Set(uint32(d.options.Tables.Switch)); err != nil {
			return nil, fmt.Errorf("set dsa_format of program %s: %w", p.name, err)
		}
	}
	return spec, nil
}

// Tables gives the sizes of the tables that are there; zero without stateful
// translation, or without offload. What else programs are loaded for is in no
// table.
func (d *Datapath) Tables() state.Tables {
	t := state.Tables{Switch: d.options.Tables.Switch, Unused: d.options.Tables.Unused}
	if m, err := d.mapNamed("nat64_bib6"); err == nil && m.MaxEntries() > 1 {
		t.Bindings = int(m.MaxEntries())
	}
	if m, err := d.mapNamed("nat64_sessions"); err == nil && m.MaxEntries() > 1 {
		t.Sessions = int(m.MaxEntries())
	}
	if m, err := d.mapNamed("flow_passes"); err == nil && m.MaxEntries() > 1 {
		t.Flows = int(m.MaxEntries())
	}
	if m, err := d.mapNamed("l2tp_states"); err == nil && m.MaxEntries() > 1 {
		t.Subscribers = int(m.MaxEntries())
	}
	return t
}

// Resize gives stateful translation and access tables of other sizes. They are
// new: what was in them is forgotten, and the programs that are attached have to be
// replaced by the build for these tables.
func (d *Datapath) Resize(t state.Tables) error {
	d.use(t.Unused)
	if d.Tables() == t {
		return nil
	}
	d.options.Tables = t
	fresh := map[string]*ebpf.Map{}
	for _, g := range append(groups(), group{"nat64_resolve", []string{"nat64_changes"}}) {
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
	return d.startSweep()
}

// swap puts maps in the place of those of the same name, and forgets programs
// that were loaded with the old ones.
func (d *Datapath) swap(fresh map[string]*ebpf.Map) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, m := range fresh {
		d.maps[name].Close()
		d.maps[name] = m
	}
	d.forget(func(string) bool { return true })
}

// use has programs be loaded from now on without the code for some roles.
func (d *Datapath) use(unused state.Roles) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.options.Tables.Unused != unused {
		d.options.Tables.Unused = unused
		d.forget(servesAll)
	}
}

// forget has programs be loaded anew when they are needed; d.mu is held. Those
// that are attached go on.
func (d *Datapath) forget(which func(program string) bool) {
	for name, prog := range d.loaded {
		if which(name) {
			prog.Close()
			delete(d.loaded, name)
		}
	}
}

// group is maps that speak of each other: they are made and replaced together.
type group struct {
	program string // one that has them all
	maps    []string
}

// flowsEntered bounds the flows of PPP sessions that are on their way from one
// device to the one below, which is at once.
const flowsEntered = 4096

// flowMaps are those of offload that grow with its table.
func flowMaps() []string {
	return []string{"flow_lines4", "flow_lines6", "flow_index", "flow_passes", "flow_events", "flow_refusals", "flow_entered"}
}

func groups() []group {
	return []group{{"nat64_resolve", stateMaps()}, {"access_egress", accessMaps()}, {"flow_egress", flowMaps()}}
}

func stateMaps() []string {
	return []string{
		"nat64_bib6", "nat64_bib4", "nat64_subscribers", "nat64_sessions", "nat64_slots", "nat64_slots_free", "nat64_fast_sets",
		"nat64_peers", "nat64_sweep_states", "nat64_usages",
		"nat64_log_events",
	}
}

func (d *Datapath) groupSpec(g group) (*ebpf.CollectionSpec, error) {
	p, err := programNamed(g.program)
	if err != nil {
		return nil, err
	}
	return d.spec(p)
}

// startSweep has the kernel end sessions whose time is up, from now on and
// whether weft runs or not. Without stateful translation there are none.
func (d *Datapath) startSweep() error {
	if d.options.Tables.Sessions == 0 {
		return d.runSweep(sweepStop)
	}
	return d.runSweep(sweepStart)
}

// Sweep ends every session whose time is up now.
func (d *Datapath) Sweep() error { return d.runSweep(sweepAll) }

// skBuff is struct __sk_buff of linux/bpf.h as far as a run may set it.
type skBuff struct {
	_    [2]uint32
	Mark uint32
	_    [7]uint32
	// index of the device that the packet is as of; 0: of loopback
	Ifindex uint32
	_       [37]uint32
}

func (d *Datapath) runSweep(mark uint32) error {
	p, err := programNamed("nat64_sweep")
	if err != nil {
		return err
	}
	prog, err := d.load(p)
	if err != nil {
		return err
	}
	verdict, err := prog.Run(&ebpf.RunOptions{Data: make([]byte, 64), DataOut: make([]byte, 128), Context: skBuff{Mark: mark}})
	if err == nil && verdict != 0 {
		err = errors.New("the kernel refused the timer")
	}
	if err != nil {
		return fmt.Errorf("run program nat64_sweep: %w", err)
	}
	return nil
}

// Binders lists how stateful translators bind, by id.
func (d *Datapath) Binders() ([]state.Binder, error) {
	m, err := d.mapNamed("nat64_stateful_configs")
	if err != nil {
		return nil, err
	}
	var list []state.Binder
	for id := range m.MaxEntries() {
		var v binder
		if err := m.Lookup(id, &v); err != nil {
			return nil, fmt.Errorf("read binder %d: %w", id, err)
		}
		if v.Addresses != 0 {
			list = append(list, decodeBinder(int(id), v))
		}
	}
	return list, nil
}

func (d *Datapath) writeBinder(b state.Binder, remove bool) error {
	v := encodeBinder(b)
	if remove {
		v = binder{}
	}
	return d.write("nat64_stateful_configs", uint32(b.ID), v, false)
}

// Statics lists the bindings of weft.toml.
func (d *Datapath) Statics() ([]state.StaticBinding, error) {
	return collect(d, "nat64_statics6", decodeStatic)
}

// writeStatic writes or removes both directions of a static binding.
func (d *Datapath) writeStatic(s state.StaticBinding, remove bool) error {
	six, four := encodeBib6Key(s.Translator, s.Protocol, s.IPv6), encodeBib4Key(s.Protocol, s.IPv4)
	var old bib4Key
	m, err := d.mapNamed("nat64_statics6")
	if err != nil {
		return err
	}
	if m.Lookup(six, &old) == nil && old != four {
		if err := d.write("nat64_statics4", old, nil, true); err != nil {
			return err
		}
	}
	if err := d.write("nat64_statics4", four, six, remove); err != nil {
		return err
	}
	return d.write("nat64_statics6", six, four, remove)
}

// nowTicks is the time as the programs see it, but for a tick.
func nowTicks() uint32 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return 0
	}
	return uint32(t.Nano() >> nat64TickShift)
}
