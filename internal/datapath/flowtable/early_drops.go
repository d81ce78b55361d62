package flowtable

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weft/internal/datapath"
	"weft/internal/state"
)

type (
	flowTuple   = datapath.IngressTCFlowTuple
	flowRefusal = datapath.IngressTCFlowEarlyDrop
)

// flowRefusals is the largest number of refused flows: the least recently seen ones
// make room for new ones.
func flowRefusals(flows int) uint32 {
	if flows == 0 {
		return 1
	}
	return 16384
}

// Refuse makes the refusals of that epoch valid; 0: none.
func (f *Flows) Refuse(epoch uint32) { storeWord(&f.controls().Refuse, epoch) }

// PutRefusals writes flows that the ruleset refused. They are not valid before
// HoldRefusals.
func (f *Flows) PutRefusals(list []state.FlowKey) error {
	return f.writeRefusals(list, flowRefusal{}, ebpf.UpdateAny, nil)
}

// HoldRefusals makes refused flows be dropped for that long, except those that were
// cancelled meanwhile. They become invalid when the generation or the epoch changes.
func (f *Flows) HoldRefusals(list []state.FlowKey, generation, epoch uint32, d time.Duration) error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return err
	}
	v := flowRefusal{Generation: generation, Epoch: epoch, Until: uint64(now.Nano() + int64(d))}
	return f.writeRefusals(list, v, ebpf.UpdateExist, ebpf.ErrKeyNotExist)
}

func (f *Flows) writeRefusals(list []state.FlowKey, v flowRefusal, flags ebpf.MapUpdateFlags, but error) error {
	for _, k := range list {
		v.Interface = k.Interface
		if err := f.refusals.Update(encodeFlowTuple(k.Tuple), v, flags); err != nil && !errors.Is(err, but) {
			return fmt.Errorf("write a refused flow: %w", err)
		}
	}
	return nil
}

// DeleteRefusals cancels refusals: the ruleset sees these flows' packets again.
func (f *Flows) DeleteRefusals(list []state.FlowKey) error {
	for _, k := range list {
		if err := f.refusals.Delete(encodeFlowTuple(k.Tuple)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("delete a refused flow: %w", err)
		}
	}
	return nil
}

func encodeFlowTuple(t state.FlowTuple) flowTuple {
	v := flowTuple{Protocol: uint32(t.Protocol)}
	v.Saddr.U8, v.Daddr.U8 = t.Src, t.Dst
	v.Ports.Source, v.Ports.Dest = datapath.Htons(t.SrcPort), datapath.Htons(t.DstPort)
	return v
}
