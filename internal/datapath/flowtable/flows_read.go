package flowtable

import (
	"encoding/binary"
	"errors"
	"unsafe"

	"weft/internal/datapath"
	"weft/internal/state"
)

// flowsAtOnce is the number of flows that one system call reads.
const flowsAtOnce = 4096

// flowCursor is the position of a pass over all flows.
type flowCursor struct {
	line int  // the next one
	six  bool // those of IPv4 were all given
}

// Each calls use for every flow, with its state at some moment of the call.
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

// Some reads some thousand flows per call, and calls use for those for which useful
// returns false. more is false once it has read each flow that was there all the
// time; then the next call begins at the first.
func (f *Flows) Some(useful func(state.FlowState) bool, use func(state.FlowUse)) (more bool, err error) {
	now := datapath.NowTicks()
	if more, err = f.next(&f.some, func(v *flowPart) bool { return useful(stateOf(v, now)) }, use); !more || err != nil {
		f.some = flowCursor{}
		err = errors.Join(err, f.v4.grace(), f.v6.grace())
	}
	return more, err
}

// Look reads the state of each of those flows and calls use with its index in the
// list; missing flows are skipped.
func (f *Flows) Look(list []state.FlowKey, use func(i int, f state.FlowState)) error {
	now := datapath.NowTicks()
	for i, k := range list {
		var part flowPart
		var there bool
		if k.Tuple.Is4() {
			part, there = f.v4.look(encodeFlowKey4(k))
		} else {
			part, there = f.v6.look(encodeFlowKey6(k))
		}
		if there {
			use(i, stateOf(&part, now))
		}
	}
	return nil
}

// next calls use for some flows, except those for which skip returns true; nil skips
// none.
func (f *Flows) next(c *flowCursor, skip func(*flowPart) bool, use func(state.FlowUse)) (more bool, err error) {
	now := datapath.NowTicks()
	// the flows of both families have one layout; Go has a type for each
	if !c.six {
		c.line, more, err = f.v4.next(c.line, skip, func(k *flowKey4, v *flow4) {
			u := decodeFlow(*(*flowPart)(unsafe.Pointer(&v.Flow)), now)
			u.FlowKey = decodeFlowKey4(k)
			u.Becomes.Src, u.Becomes.Dst = mapped(v.Saddr), mapped(v.Daddr)
			use(finish(u))
		})
		if !more {
			c.line, c.six = 0, true
		}
		return true, err
	}
	c.line, more, err = f.v6.next(c.line, skip, func(k *flowKey6, v *flow6) {
		u := decodeFlow(*(*flowPart)(unsafe.Pointer(&v.Flow)), now)
		u.FlowKey = decodeFlowKey6(k)
		u.Becomes.Src, u.Becomes.Dst = v.Saddr.U8, v.Daddr.U8
		use(finish(u))
	})
	return more, err
}

func finish(u state.FlowUse) state.FlowUse {
	u.Becomes.Protocol = u.Tuple.Protocol
	return u
}

func mapped(wire uint32) [16]byte {
	a := [16]byte{10: 0xff, 11: 0xff}
	binary.NativeEndian.PutUint32(a[12:], wire)
	return a
}
