package datapath

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weft/internal/state"
)

// flowsAtOnce is how many are read by one call of the kernel.
const flowsAtOnce = 4096

// flowCursor is how far a look at all flows has come.
type flowCursor struct {
	v4  int // the next line
	v6  batches[flowKey6, flow6]
	six bool // those of IPv4 were all given
}

// Each gives every flow there is, as it was at some moment of the call.
func (f *Flows) Each(use func(state.FlowUse)) error {
	var c flowCursor
	for more := true; more; {
		var err error
		if more, err = f.next(&c, nil, use); err != nil {
			return err
		}
	}
	return nil
}

// Some looks at flows, some thousands at a call, and gives those that are of no
// use; more is false once it has looked at each that was there all the time, and
// then it begins anew.
func (f *Flows) Some(useful func(state.FlowState) bool, use func(state.FlowUse)) (more bool, err error) {
	now := nowTicks()
	if more, err = f.next(&f.some, func(v *flowPart) bool { return useful(stateOf(v, now)) }, use); !more || err != nil {
		f.some = flowCursor{}
		err = errors.Join(err, f.lines.grace())
	}
	return more, err
}

// Look gives the state of each of those flows; use is told its place in the list,
// and not called for those that are not there.
func (f *Flows) Look(list []state.FlowKey, use func(i int, f state.FlowState)) error {
	now := nowTicks()
	for i, k := range list {
		var part flowPart
		var there bool
		var err error
		if k.Tuple.Is4() {
			part, there = f.lines.look(encodeFlowKey4(k))
		} else {
			var v flow6
			err = f.v6.Lookup(encodeFlowKey6(k), &v)
			if there = err == nil; errors.Is(err, ebpf.ErrKeyNotExist) {
				err = nil
			}
			part = *(*flowPart)(unsafe.Pointer(&v.Flow))
		}
		if err != nil {
			return fmt.Errorf("read a flow: %w", err)
		}
		if there {
			use(i, stateOf(&part, now))
		}
	}
	return nil
}

// next gives some flows, but for those that skip tells to leave out; nil: none.
func (f *Flows) next(c *flowCursor, skip func(*flowPart) bool, use func(state.FlowUse)) (more bool, err error) {
	now := nowTicks()
	if !c.six {
		c.v4, more, err = f.lines.next(c.v4, skip, func(k *flowKey4, v *flow4) {
			u := decodeFlow(v.Flow, now)
			u.FlowKey = decodeFlowKey4(k)
			u.Becomes.Src, u.Becomes.Dst = mapped(v.Saddr), mapped(v.Daddr)
			use(finish(u))
		})
		c.six = !more
		return true, err
	}
	return c.v6.next(f.v6, func(k *flowKey6, v *flow6) {
		// both families' flows have one layout; Go has a type for each
		part := (*flowPart)(unsafe.Pointer(&v.Flow))
		if skip != nil && skip(part) {
			return
		}
		u := decodeFlow(*part, now)
		u.FlowKey = decodeFlowKey6(k)
		u.Becomes.Src, u.Becomes.Dst = v.Saddr.U8, v.Daddr.U8
		use(finish(u))
	})
}

func finish(u state.FlowUse) state.FlowUse {
	u.Becomes.Protocol = u.Tuple.Protocol
	return u
}

// batches reads a hash in batches.
type batches[K, V any] struct {
	cursor ebpf.MapBatchCursor
	keys   []K
	values []V
}

func (b *batches[K, V]) next(m *ebpf.Map, use func(*K, *V)) (more bool, err error) {
	if b.keys == nil {
		b.keys, b.values = make([]K, flowsAtOnce), make([]V, flowsAtOnce)
	}
	n, err := m.BatchLookup(&b.cursor, b.keys, b.values, nil)
	for i := range n {
		use(&b.keys[i], &b.values[i])
	}
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, ebpf.ErrKeyNotExist):
		return false, nil
	case errors.Is(err, unix.ENOSPC): // a bucket larger than the batch
		b.keys, b.values = make([]K, 2*len(b.keys)), make([]V, 2*len(b.values))
		return true, nil
	}
	return false, fmt.Errorf("read flows: %w", err)
}

func mapped(wire uint32) [16]byte {
	a := [16]byte{10: 0xff, 11: 0xff}
	binary.NativeEndian.PutUint32(a[12:], wire)
	return a
}
