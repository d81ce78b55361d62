package rig

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/rlimit"

	"weft/internal/lab/netspace"
)

// LengthSink counts the frames of one length that arrive at a host, in any tunnel.
// All but ARP is dropped.
type LengthSink struct{ received *ebpf.Map }

// NewLengthSink attaches one to a host's eth0. It is removed with the path.
func (p *Path) NewLengthSink(host *netspace.Space, length int) (*LengthSink, error) {
	received, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err := errors.Join(rlimit.RemoveMemlock(), err); err != nil {
		return nil, fmt.Errorf("make the sink's counter: %w", err)
	}
	p.onClose(received.Close)
	const pass, drop = 2, 1 // XDP_PASS, XDP_DROP
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.XDP, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{
			asm.LoadMem(asm.R2, asm.R1, 0, asm.Word), // struct xdp_md: data, data_end
			asm.LoadMem(asm.R3, asm.R1, 4, asm.Word),
			asm.Mov.Reg(asm.R4, asm.R2),
			asm.Add.Imm(asm.R4, 14),
			asm.JGT.Reg(asm.R4, asm.R3, "drop"),
			asm.LoadMem(asm.R5, asm.R2, 12, asm.Half),
			asm.JEq.Imm(asm.R5, 0x0608, "pass"), // ETH_P_ARP as it lies in memory
			asm.Sub.Reg(asm.R3, asm.R2),
			asm.JNE.Imm(asm.R3, int32(length), "drop"),
			asm.StoreImm(asm.RFP, -4, 0, asm.Word),
			asm.Mov.Reg(asm.R2, asm.RFP),
			asm.Add.Imm(asm.R2, -4),
			asm.LoadMapPtr(asm.R1, received.FD()),
			asm.FnMapLookupElem.Call(),
			asm.JEq.Imm(asm.R0, 0, "drop"),
			asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord),
			asm.Add.Imm(asm.R1, 1),
			asm.StoreMem(asm.R0, 0, asm.R1, asm.DWord),
			asm.Mov.Imm(asm.R0, drop).WithSymbol("drop"),
			asm.Return(),
			asm.Mov.Imm(asm.R0, pass).WithSymbol("pass"),
			asm.Return(),
		},
	})
	if err != nil {
		return nil, fmt.Errorf("load the sink: %w", err)
	}
	p.onClose(program.Close)
	l, err := AttachXDP(host, "eth0", program)
	if err != nil {
		return nil, err
	}
	p.onClose(l.Close)
	return &LengthSink{received}, nil
}

// Arrived is how many have come in all.
func (s *LengthSink) Received() (uint64, error) { return perCPU(s.received, 0) }
