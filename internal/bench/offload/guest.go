package offload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"weft/internal/bench"
	"weft/internal/bench/rig"
	"weft/internal/lab/guest"
)

// The kernel's own flowtable is in Debian's kernels, and so is measured in a guest.
// Its processor is emulated, so its time is meaningless; instead the guest's clock
// counts instructions. The effect of caches is not visible.

const (
	instructionsOne  = "instructions-nat-1"
	instructionsSome = "instructions-nat-1024"
	instructionsDrop = "instructions-drop-1"
)

// some is how many flows the middle case has.
const some = 1024

// flowtable is the kernel's own offload (nft(8), FLOWTABLES), in the ruleset of
// all others.
const flowtable = `
  flowtable fast {
    hook ingress priority 0
    devices = { "lan", "wan" }
  }
`

const flowtableRule = `meta l4proto { tcp, udp } flow add @fast`

func policyOf(subject string) string {
	if subject != "kernel-flowtable" {
		return policy
	}
	text := strings.Replace(policy, "table inet bench {", "table inet bench {"+flowtable, 1)
	return strings.Replace(text, "    ct state vmap", "    "+flowtableRule+"\n    ct state vmap", 1)
}

// GuestSeconds is the default of Options.Seconds in a guest, in the guest's time,
// which runs at a twentieth of the speed.
const GuestSeconds = 0.1

// GuestTable is how many flows weft has room for in a guest.
const GuestTable = 8192

// GuestBench describes what is measured in a guest.
func GuestBench() bench.Bench {
	return bench.Bench{
		Name:  "offload-guest",
		Title: "Connections behind NAT in a guest: weft, the kernel and its flowtable",
		Cases: []bench.Case{
			{Name: instructionsOne, About: "the router's work for an IPv4 packet of 64 bytes of one flow, source NAT", Unit: "instructions", Less: true},
			{Name: instructionsSome, About: "the same of 1024 flows, in turn", Unit: "instructions", Less: true},
			{Name: instructionsDrop, About: "the same for one that is refused: by FORWARD, by the block list", Unit: "instructions", Less: true},
		},
		Subjects: []bench.Subject{
			{Name: "kernel", About: "the kernel: conntrack, NAT, FORWARD"},
			{Name: "kernel-flowtable", About: "the kernel with a flowtable in the same ruleset"},
			{Name: "weft-tc", About: "weft, TC"},
			{Name: "weft-xdp", About: "weft, XDP"},
			{Name: "tc-forward", About: "a TC program that looks at nothing, without NAT"},
			{Name: "xdp-forward", About: "an XDP program that routes by the kernel's table, without NAT"},
		},
		Fits: func(c, subject string) bool {
			return c != instructionsDrop || subject == "kernel" || strings.HasPrefix(subject, "weft-")
		},
		Rounds:   1,
		Packages: []string{"nftables"},
		Settings: map[string]string{
			"clock":     "QEMU, -icount shift=0: a nanosecond for each instruction",
			"topology":  "three network namespaces in a row, veth, MTU 1500, in a guest with one CPU",
			"policy":    strings.Join(strings.Fields(policy), " "),
			"flowtable": strings.Join(strings.Fields(policyOf("kernel-flowtable")), " "),
			"refused":   strings.Join(strings.Fields(refusedPolicy), " "),
		},
	}
}

// instructions turns a rate in million packets a second of a clock that counts
// instructions into instructions for a packet.
func instructions(rate float64, err error) (float64, error) { return 1e3 / rate, err }

// GuestNeeds are the programs of the host that the guest gets.
func GuestNeeds() []rig.Program {
	return []rig.Program{{Name: "nft", Package: "nftables"}, {Name: "ip", Package: "iproute2"}, {Name: "unshare", Package: "util-linux"}}
}

// InGuest runs this very program in a guest, with these arguments.
func InGuest(ctx context.Context, self string, args []string, stdout, stderr io.Writer) (err error) {
	if err := guest.Possible(guest.Spec{Kind: guest.QEMU}); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "weft-guest-") // short: a socket is in it
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	spec := guest.Spec{
		Kind: guest.QEMU, Name: "bench", Dir: filepath.Join(dir, "g"), Memory: 1024, Count: true,
		Modules: []string{"veth", "crc32c_generic", "nf_conntrack_netlink", "nf_tables", "nft_ct", "nft_chain_nat", "nft_nat",
			"nft_flow_offload", "nf_flow_table_inet"},
		Self: []string{self, "guest"}, Patience: 5 * time.Minute,
		Script: "mount -t bpf bpf /sys/fs/bpf\nmkdir -p /run/netns",
	}
	for _, p := range GuestNeeds() {
		spec.Programs = append(spec.Programs, p.Name)
	}
	m, err := guest.Start(ctx, spec)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Stop(context.WithoutCancel(ctx))) }()
	exit, err := m.Run(ctx, guest.Command{Argv: slices.Concat([]string{guest.SelfInQEMU(self)}, args), Stdout: stdout, Stderr: stderr})
	if err == nil && exit != 0 {
		err = fmt.Errorf("the bench in the guest failed: exit status %d", exit)
	}
	return err
}
