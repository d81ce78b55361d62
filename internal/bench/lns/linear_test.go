package lns

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"weft/internal/bench/benchtest"
	"weft/internal/bench/rig"
)

// What TCP has sent keeps its payload out of the linear bytes on its way out of a
// tunnel, also where the kernel has made packets of a GSO packet: the receiver's
// stack joins only such.
func TestNoPayloadIsPulledIn(t *testing.T) {
	weft := benchtest.Weft(t, Needs([]string{"tcp1-up-1"}, []string{"weft-tables"})...)
	if err := rig.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	var tables subject
	for _, s := range subjects() {
		if s.name == "weft-tables" {
			tables = s
		}
	}
	r, err := newTopology(t.Context(), tables, 1, Options{Weft: weft, Progress: func(string) {}}, false, false)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close(t.Context())
	if err := r.serveTCP(t.Context()); err != nil {
		t.Fatal(err)
	}
	seen := watchLinear(t, r)
	if _, err := r.TCP(t.Context(), r.Left, right.Host[1].Addr(), 1, 1); err != nil {
		t.Fatal(err)
	}
	var n struct{ Large, Payload uint64 }
	if err := seen.Lookup(uint32(0), &n); err != nil {
		t.Fatal(err)
	}
	if n.Large < 100 || n.Payload > n.Large/100 {
		t.Errorf("of %d large packets %d brought payload in their linear bytes", n.Large, n.Payload)
	}
}

// watchLinear counts large packets that come to the world, and those of them with more
// than an Ethernet, an IP and the longest TCP header in their linear bytes.
func watchLinear(t *testing.T, r *topology) *ebpf.Map {
	const (
		headers               = 14 + 20 + 60
		length, data, dataEnd = 0, 76, 80 // of struct __sk_buff, linux/bpf.h
		next                  = -1        // TCX_NEXT
	)
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 16, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "Dual BSD/GPL", Instructions: asm.Instructions{
		asm.LoadMem(asm.R0, asm.R1, length, asm.Word),
		asm.JLT.Imm(asm.R0, 1000, "out"),
		asm.LoadMem(asm.R2, asm.R1, data, asm.Word),
		asm.LoadMem(asm.R7, asm.R1, dataEnd, asm.Word),
		asm.Sub.Reg(asm.R7, asm.R2),
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
		asm.LoadMapPtr(asm.R1, m.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
		asm.Mov.Imm(asm.R1, 1),
		asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
		asm.JLE.Imm(asm.R7, headers, "out"),
		asm.Add.Imm(asm.R0, 8),
		asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R0, next).WithSymbol("out"),
		asm.Return(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	index, err := rig.DeviceIndex(r.Right, "eth0")
	if err != nil {
		t.Fatal(err)
	}
	var l link.Link
	if err := r.Right.Do(func() (err error) {
		l, err = link.AttachTCX(link.TCXOptions{Interface: index, Program: program, Attach: ebpf.AttachTCXIngress})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return m
}
