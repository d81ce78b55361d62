package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"weft/internal/lab/guest"
)

// guestRole is how guests reach guest.Main in the weft program.
const guestRole = "guest"

// guestDir is the directory of a node's guest, within the node's own.
func guestDir(lab, node string) string { return filepath.Join(StateDir, lab, node, "guest") }

// guestTools of the host go into every QEMU guest, where busybox alone does
// not know the kernels' newer networking.
var guestTools = [...]string{"ip", "tc", "bridge"}

func (l *Lab) startGuest(ctx context.Context, s StartGuest) error {
	n := s.Node
	spec := guest.Spec{
		Kind: guest.Kind(n.Kind), Name: n.Name, Kernel: n.Kernel, Memory: n.MemoryMiB, Modules: n.Modules,
		Sysctls: n.Sysctls, Script: n.Script, Forward: n.Forward, Root: guest.Root(n.Root), Init: guest.Init(n.Init),
		Progress: func(stage string) { l.report(GuestStage{n.Name, stage}) },
	}
	if n.Root != "" {
		spec.Share = l.nodeDir(n.Name)
	}
	if len(n.Files) > 0 {
		spec.Files = map[string][]byte{}
	}
	for path, text := range n.Files {
		spec.Files[path] = []byte(text)
	}
	for _, nic := range s.NICs {
		spec.NICs = append(spec.NICs, guest.NIC{Name: nic.Device, Tap: nic.Tap, MAC: nic.MAC, Addresses: nic.Addresses, MTU: nic.MTU})
	}
	for _, w := range n.Wires {
		mac, _ := net.ParseMAC(w.MAC) // validated; nil where there is none
		spec.NICs = append(spec.NICs, guest.NIC{Name: w.Device, Backend: w.Options, MAC: mac, Addresses: w.Addresses, MTU: w.MTU})
	}
	for _, r := range n.Routes {
		spec.Routes = append(spec.Routes, guest.Route{Destination: r.To, Via: r.Via, NIC: r.Device, MTU: r.MTU})
	}
	for _, g := range n.Gateway {
		spec.Routes = append(spec.Routes, guest.Route{Destination: netip.PrefixFrom(anyOf(g), 0), Via: g})
	}
	for _, tool := range guestTools {
		if _, err := exec.LookPath(tool); err == nil {
			spec.Programs = append(spec.Programs, tool)
		}
	}
	for _, p := range n.Programs {
		spec.Programs = append(spec.Programs, p.Name)
	}
	return l.boot(ctx, n.Name, cmp.Or(n.Beside, n.Name), spec)
}

func (l *Lab) startImpairment(ctx context.Context, s StartImpairment) error {
	spec := guest.ImpairSpec(s.Node, "", s.Taps[0], s.Taps[1], guest.Impairment{
		Delay: time.Duration(s.Link.Delay), Jitter: time.Duration(s.Link.Jitter),
		Loss: s.Link.Loss, Rate: uint64(s.Link.Rate),
	})
	for i := range spec.NICs {
		spec.NICs[i].MTU = s.Link.MTU
	}
	return l.boot(ctx, s.Node, s.Node, spec)
}

// boot starts a guest in a node's namespace, usually its own, and makes its end be
// noticed like that of any process.
func (l *Lab) boot(ctx context.Context, node, in string, spec guest.Spec) error {
	spec.Dir = guestDir(l.Name, node)
	spec.Self = []string{l.weft, guestRole}
	spec.Netns = fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), l.spaces[in].FD())
	spec.Patience = l.patience(spec.Init != "")
	m, err := guest.Start(ctx, spec)
	if err != nil {
		return err
	}
	l.guests[node] = m
	p := &process{node: node, name: "the guest", log: m.Log(), done: make(chan struct{})}
	l.processes = append(l.processes, p)
	go func() {
		<-m.Done()
		p.err = m.Err()
		close(p.done)
	}()
	return nil
}

// patience limits the boot of a guest. systemd starts some forty programs, which an
// emulated processor does in half a minute, and beside other work in several.
func (l *Lab) patience(systemd bool) time.Duration {
	if systemd {
		return 3 * l.deadline
	}
	return l.deadline
}

// placesIn are the paths of the weft program and of the node's directory as the node
// sees them. What runs before a guest has booted runs beside it.
func (l *Lab) placesIn(node string) (weft, dir string) {
	n := l.scenario.node(node)
	switch {
	case n == nil || n.Kind != QEMU || l.guests[node] == nil:
		return l.weft, l.nodeDir(node)
	case n.Root != "":
		return guest.SelfOnHostRoot, guest.ShareOnHostRoot
	}
	return guest.SelfInQEMU(l.weft), l.nodeDir(node)
}

// node returns the node of a name, nil if there is none.
func (s *Scenario) node(name string) *Node {
	i := slices.IndexFunc(s.Nodes, func(n Node) bool { return n.Name == name })
	if i < 0 {
		return nil
	}
	return &s.Nodes[i]
}

// inGuest returns the command that runs argv in the node, if that is a guest.
func (l *Lab) inGuest(node string, argv []string) []string {
	if l.guests[node] == nil {
		return argv
	}
	return guest.InGuest([]string{l.weft, guestRole}, guestDir(l.Name, node), argv...)
}

// guestShell returns the command that opens a guest's console, or runs a command
// there; nil where the node is not a guest.
func guestShell(n RunningNode, command []string, weft string) []string {
	dir := guestDir(n.Lab, n.Node)
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	self := []string{weft, guestRole}
	if len(command) == 0 {
		return guest.OnConsole(self, dir)
	}
	return guest.InGuest(self, dir, slices.Clone(command)...)
}
