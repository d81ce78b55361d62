package rig

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"

	"weft/internal/lab/netspace"
)

// ForwardInTC makes the router forward every IPv4 frame of one link to the host on
// the other, without looking at it: the minimal cost of TC.
func (p *Path) ForwardInTC() error {
	return errors.Join(p.forwardInTC("lan", "wan", p.Right), p.forwardInTC("wan", "lan", p.Left))
}

func (p *Path) forwardInTC(in, out string, host *netspace.Space) error {
	from, err := DeviceIndex(p.Router, in)
	if err != nil {
		return err
	}
	to, err := DeviceIndex(p.Router, out)
	if err != nil {
		return err
	}
	dst, err := MAC(host, "eth0")
	if err != nil {
		return err
	}
	src, err := MAC(p.Router, out)
	if err != nil {
		return err
	}
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.SchedCLS, License: "Dual BSD/GPL", Instructions: sendOn(append(dst, src...), to),
	})
	if err := errors.Join(rlimit.RemoveMemlock(), err); err != nil {
		return fmt.Errorf("load the forwarder: %w", err)
	}
	p.onClose(program.Close)
	return p.Router.Do(func() error {
		l, err := link.AttachTCX(link.TCXOptions{Interface: from, Program: program, Attach: ebpf.AttachTCXIngress})
		if err != nil {
			return fmt.Errorf("attach the forwarder to %s: %w", in, err)
		}
		p.onClose(l.Close)
		return nil
	})
}

// sendOn replaces the link addresses of IPv4 frames, and sends them by a device.
func sendOn(addresses []byte, by int) asm.Instructions {
	const (
		protocol = 16 // in struct __sk_buff
		next     = -1 // TCX_NEXT
	)
	return asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMem(asm.R2, asm.R6, protocol, asm.Word),
		asm.JNE.Imm(asm.R2, int32(binary.NativeEndian.Uint16([]byte{8, 0})), "next"),
		asm.StoreImm(asm.RFP, -16, int64(int32(binary.NativeEndian.Uint32(addresses))), asm.Word),
		asm.StoreImm(asm.RFP, -12, int64(int32(binary.NativeEndian.Uint32(addresses[4:]))), asm.Word),
		asm.StoreImm(asm.RFP, -8, int64(int32(binary.NativeEndian.Uint32(addresses[8:]))), asm.Word),
		asm.Mov.Imm(asm.R2, 0),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, -16),
		asm.Mov.Imm(asm.R4, int32(len(addresses))),
		asm.Mov.Imm(asm.R5, 0),
		asm.FnSkbStoreBytes.Call(),
		asm.Mov.Imm(asm.R1, int32(by)),
		asm.Mov.Imm(asm.R2, 0),
		asm.FnRedirect.Call(),
		asm.Return(),
		asm.Mov.Imm(asm.R0, next).WithSymbol("next"),
		asm.Return(),
	}
}
