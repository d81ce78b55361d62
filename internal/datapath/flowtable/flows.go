package flowtable

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"weft/internal/datapath"
	"weft/internal/state"
)

type (
	flowKey4    = datapath.IngressTCFlowKey4
	flowKey6    = datapath.IngressTCFlowKey6
	flow4       = datapath.IngressTCFlow4
	flow6       = datapath.IngressTCFlow6
	flowHop     = datapath.IngressTCFlowHop
	flowControl = datapath.IngressTCFlowControl
	flowSession = datapath.IngressTCFlowSessionKey
	passedKey   = datapath.FlowEgressFlowPassedKey
	flowEvent   = datapath.FlowEgressFlowEvent
)

// flowEventBytes is the size of the ring of pending events: all flows may cause one
// at once. A ring is a power of two of pages.
func flowEventBytes(flows int) uint32 {
	size := uint32(4096)
	for size < 8<<20 && int(size) < flows*88 {
		size *= 2
	}
	return size
}

// Flows gives access to offloaded flows.
type Flows struct {
	d        Table
	v4       *lines4
	v6       *lines6
	hops     *ebpf.Map
	passes   *ebpf.Map
	refusals *ebpf.Map
	control  *ebpf.Map
	memory   []byte
	events   *ringbuf.Reader
	some     flowCursor
}

// Flows opens the datapath's current tables. Only one may be open at a time.
func (d Table) Flows() (*Flows, error) {
	f, err := d.ViewFlows()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(f.v4.own(), f.v6.own()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if f.refusals, err = d.core.Map("flow_early_drops"); err != nil {
		return nil, err
	}
	if f.memory, err = datapath.MapMemory(f.control, int(f.control.ValueSize()), unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return nil, err
	}
	events, err := d.core.Map("flow_events")
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if f.events, err = ringbuf.NewReader(events); err != nil {
		return nil, errors.Join(fmt.Errorf("read flow events: %w", err), f.Close())
	}
	return f, nil
}

// ViewFlows opens the tables read-only.
func (d Table) ViewFlows() (*Flows, error) {
	f := &Flows{d: d}
	var err error
	var lines4, lines6, index *ebpf.Map
	for name, m := range map[string]**ebpf.Map{"flow_lines4": &lines4, "flow_lines6": &lines6, "flow_index": &index, "flow_passes": &f.passes, "flow_hops": &f.hops, "flow_controls": &f.control} {
		if *m, err = d.core.Map(name); err != nil {
			return nil, err
		}
	}
	most := int(f.passes.MaxEntries())
	f.v4 = openLines[flowKey4, flow4, line4, *line4](lines4, index, 0, most, flowHash4)
	f.v6 = openLines[flowKey6, flow6, line6, *line6](lines6, index, 1, most, flowHash6)
	return f, nil
}

// Close closes the tables; flows stay until their lease ends.
func (f *Flows) Close() error {
	var errs []error
	if f.events != nil {
		errs = append(errs, f.events.Close())
	}
	errs = append(errs, f.v4.close(), f.v6.close())
	if f.memory != nil {
		errs = append(errs, unix.Munmap(f.memory))
		f.memory = nil
	}
	return errors.Join(errs...)
}

// Passed waits for flows that may be worth offloading, and returns those that there
// are, at most that many. Close ends it with os.ErrClosed.
func (f *Flows) Passed(list []state.PassedFlow, most int) ([]state.PassedFlow, error) {
	var r ringbuf.Record
	f.events.SetDeadline(time.Time{})
	for len(list) < most {
		err := f.events.ReadInto(&r)
		if errors.Is(err, unix.ETIMEDOUT) || errors.Is(err, errDeadline) {
			return list, nil
		}
		if err != nil {
			return list, err
		}
		var e flowEvent
		if len(r.RawSample) >= int(unsafe.Sizeof(e)) {
			e = *(*flowEvent)(unsafe.Pointer(&r.RawSample[0]))
			list = append(list, decodePassed(e))
		}
		// only what is there already
		f.events.SetDeadline(time.Unix(1, 0))
	}
	return list, nil
}

func (f *Flows) controls() *flowControl { return (*flowControl)(unsafe.Pointer(&f.memory[0])) }

// Generation is the current generation of the ruleset, routes and rules.
func (f *Flows) Generation() uint32 { return loadWord(&f.controls().Generation) }

// Bump returns all flows to the stack, at once.
func (f *Flows) Bump() { addWord(&f.controls().Generation) }

// Lease lets flows be used for that long, and sets the number of packets after which
// a flow causes an event.
func (f *Flows) Lease(d time.Duration, minimum int) {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) != nil {
		return
	}
	storeWord(&f.controls().Minimum, uint32(minimum))
	storeLong(&f.controls().Lease, uint64(now.Nano()+int64(d)))
}

// SetHop writes a next hop of flows; one with Device 0 is withdrawn.
func (f *Flows) SetHop(number uint32, h state.FlowHop) error {
	if err := f.hops.Put(number, encodeFlowHop(h)); err != nil {
		return fmt.Errorf("write flow hop %d: %w", number, err)
	}
	return nil
}

// ErrFlowsFull is returned if a table of flows has no room.
var ErrFlowsFull = errors.New("the table of flows is full")

// PutFlows writes flows, and returns the number written, in order, before
// ErrFlowsFull. They are pending: the stack has their packets until OpenFlows.
func (f *Flows) PutFlows(list []state.Flow) (int, error) {
	now := datapath.NowTicks()
	for i, l := range list {
		var err error
		if l.Tuple.Is4() {
			err = f.v4.put(encodeFlowKey4(l.FlowKey), encodeFlow4(l, now))
		} else {
			err = f.v6.put(encodeFlowKey6(l.FlowKey), encodeFlow6(l, now))
		}
		if errors.Is(err, ErrFlowsFull) {
			return i, err
		}
		if err != nil {
			return i, fmt.Errorf("write flows: %w", err)
		}
	}
	return len(list), nil
}

// OpenFlows lets pending flows be used. A flow whose connection has ended since, or
// has been replaced by another, stays the stack's.
func (f *Flows) OpenFlows(list []state.FlowKey) {
	v4, v6 := byFamily(list)
	f.v4.open(v4)
	f.v6.open(v6)
}

// DeleteFlows removes flows; missing ones are no error.
func (f *Flows) DeleteFlows(list []state.FlowKey) error {
	v4, v6 := byFamily(list)
	f.v4.delete(v4)
	f.v6.delete(v6)
	return nil
}

// byFamily returns the keys of each family.
func byFamily(list []state.FlowKey) (v4 []flowKey4, v6 []flowKey6) {
	for _, k := range list {
		if k.Tuple.Is4() {
			v4 = append(v4, encodeFlowKey4(k))
		} else {
			v6 = append(v6, encodeFlowKey6(k))
		}
	}
	return v4, v6
}

// Forget resets the packet counts of flows that leave as given.
func (f *Flows) Forget(list []state.FlowKey) error {
	keys := make([]passedKey, len(list))
	for i, k := range list {
		keys[i] = encodePassedKey(k)
	}
	if err := deleteKeys(f.passes, keys); err != nil {
		return fmt.Errorf("reset packet counts of flows: %w", err)
	}
	return nil
}

// deleteKeys deletes the keys that are there: the kernel stops at each missing one.
func deleteKeys[K any](m *ebpf.Map, keys []K) error {
	for len(keys) > 0 {
		done, err := m.BatchDelete(keys, nil)
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			done, err = done+1, nil
		}
		if err != nil {
			return err
		}
		keys = keys[min(done, len(keys)):]
	}
	return nil
}

// SetSession sets the interface of a PPPoE session; 0 removes the session.
func (f *Flows) SetSession(s state.FlowSession, upper uint32) error {
	k := flowSession{Interface: s.Below, Session: datapath.Htons(s.Session), Peer: s.Peer}
	return f.d.core.Write("flow_sessions", k, upper, upper == 0)
}

// Hops returns the next hops that are not withdrawn, by number.
func (f *Flows) Hops() (map[uint32]state.FlowHop, error) {
	all := map[uint32]state.FlowHop{}
	for i := range f.hops.MaxEntries() {
		var v flowHop
		if err := f.hops.Lookup(i, &v); err != nil {
			return nil, fmt.Errorf("read flow hop %d: %w", i, err)
		}
		if v.Ifindex != 0 {
			all[i] = decodeFlowHop(v)
		}
	}
	return all, nil
}

// Control returns the generation, and whether the lease is valid.
func (f *Flows) Control() (generation uint32, leased bool, err error) {
	var v flowControl
	if err := f.control.Lookup(uint32(0), &v); err != nil {
		return 0, false, fmt.Errorf("read the flows' generation: %w", err)
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0, false, err
	}
	return v.Generation, uint64(now.Nano()) < v.Lease, nil
}
