package datapathtest

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"

	"weft/internal/config"
	"weft/internal/datapath"
	"weft/internal/feature/nat64"
	"weft/internal/lab/netspace"
	"weft/internal/lab/netspace/spacetest"
	"weft/internal/plan"
	"weft/internal/state"
	"weft/internal/translate"
)

// The programs run here by BPF_PROG_RUN, over tables of their own, in a network
// namespace of their own that stands for a router:
//
//	IPv6 nodes --- lan [programs] wan --- IPv4 hosts
//	               nat64-main (the translator's device)
//
// The neighbours at either end are static, so that bpf_fib_lookup finds a path for
// every address without a frame being sent.

// bench holds loaded programs over fresh tables.
type Bench struct {
	T         *testing.T
	space     *netspace.Space
	Datapath  *datapath.Datapath
	Load      func(program string) (*ebpf.Program, error)
	Links     map[string]state.LinkFact
	Desired   state.Desired
	Reference *translate.Config
}

var (
	Mac6 = [6]byte{0x02, 0, 0, 0, 6, 6} // next hop on lan
	Mac4 = [6]byte{0x02, 0, 0, 0, 4, 4} // next hop on wan
)

// newBench builds the router of a weft.toml whose interfaces are lan and wan
// and whose translator is main.
func New(t *testing.T, toml string, parts ...datapath.Part) *Bench {
	t.Helper()
	b := &Bench{T: t, space: spacetest.New(t, "router"), Links: map[string]state.LinkFact{}}
	f := parse(t, toml)
	translators := []string{nat64.From(f, "main").Device}
	for _, name := range f.Names("nat64") {
		if name != "main" {
			translators = append(translators, nat64.From(f, name).Device)
		}
	}
	b.In(func() error { return b.makeDevices(translators...) })
	facts := state.Facts{Builds: datapath.Builds(state.Tables{}), Translators: map[string]int{}}
	for _, l := range b.Links {
		facts.Links = append(facts.Links, l)
	}
	desired, problems := plan.Desire([]state.Part{nat64.Plan(f, facts)}, facts)
	if state.HasErrors(problems) {
		t.Fatal(problems)
	}
	b.Reference = nat64.From(f, "main").Reference(f, facts)
	b.Desired = desired
	m, err := loaded(parts)
	if err == nil {
		err = errors.Join(m.empty(), m.forgetPaths())
	}
	if err != nil {
		t.Fatal(err)
	}
	b.Datapath, b.Load = m.datapath, m.load
	b.In(b.fill)
	return b
}

func parse(t *testing.T, toml string) *config.File {
	t.Helper()
	f, problems := config.Load("weft.toml", []byte(toml), append(config.CoreSections(), nat64.Section()))
	if state.HasErrors(problems) { // a warning may be about the very thing that is tested
		t.Fatal(problems)
	}
	return f
}

// table returns a map of the datapath.
func (b *Bench) Table(name string) *ebpf.Map {
	b.T.Helper()
	m, err := b.Datapath.Map(name)
	if err != nil {
		b.T.Fatal(err)
	}
	return m
}

// program returns one that is loaded.
func (b *Bench) Program(name string) *ebpf.Program {
	b.T.Helper()
	p, err := b.Load(name)
	if err != nil {
		b.T.Fatal(err)
	}
	return p
}

// in runs f in the namespace; an error ends the test.
func (b *Bench) In(f func() error) {
	b.T.Helper()
	if err := b.space.Do(f); err != nil {
		b.T.Fatal(err)
	}
}

func (b *Bench) makeDevices(translators ...string) error {
	for _, name := range []string{"net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"} {
		if err := os.WriteFile("/proc/sys/"+name, []byte("1"), 0o644); err != nil {
			return err
		}
	}
	for _, translator := range translators {
		tap := &netlink.Tuntap{LinkAttrs: netlink.NewLinkAttrs(), Mode: netlink.TUNTAP_MODE_TAP, Flags: netlink.TUNTAP_NO_PI}
		tap.Name = translator
		if err := netlink.LinkAdd(tap); err != nil {
			return fmt.Errorf("make %s: %w", translator, err)
		}
	}
	for _, name := range []string{"lan", "wan"} {
		veth := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: name + "-far"}
		veth.Name = name
		if err := netlink.LinkAdd(veth); err != nil {
			return fmt.Errorf("make %s: %w", name, err)
		}
	}
	for _, name := range append([]string{"lan", "lan-far", "wan", "wan-far"}, translators...) {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		if err := netlink.LinkSetUp(l); err != nil {
			return fmt.Errorf("set %s up: %w", name, err)
		}
		a := l.Attrs()
		fact := state.LinkFact{Name: name, Index: a.Index, MTU: a.MTU, Up: true, XDP: true, XDPTarget: true}
		copy(fact.MAC[:], a.HardwareAddr)
		b.Links[name] = fact
	}
	return errors.Join(
		b.leadTo("lan", "2001:db8:1::1/64", "2001:db8:1::2", "::/0", Mac6),
		b.leadTo("wan", "198.51.100.1/24", "198.51.100.9", "0.0.0.0/0", Mac4))
}

// leadTo gives a device an address and makes a neighbour of it the way to all.
func (b *Bench) leadTo(device, address, neighbour, all string, mac [6]byte) error {
	l := &netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Name: device, Index: b.Links[device].Index}}
	_, everything, err := net.ParseCIDR(all)
	if err != nil {
		return err
	}
	own, err := netlink.ParseAddr(address)
	if err != nil {
		return err
	}
	if strings.Contains(address, ":") {
		own.Flags = 2 // IFA_F_NODAD
	}
	if err := netlink.AddrAdd(l, own); err != nil {
		return fmt.Errorf("add address %s: %w", address, err)
	}
	via := net.ParseIP(neighbour)
	if err := netlink.NeighSet(&netlink.Neigh{LinkIndex: l.Index, IP: via, HardwareAddr: mac[:], State: netlink.NUD_PERMANENT}); err != nil {
		return fmt.Errorf("add neighbour %s: %w", neighbour, err)
	}
	if err := netlink.RouteAdd(&netlink.Route{LinkIndex: l.Index, Dst: everything, Gw: via}); err != nil {
		return fmt.Errorf("add route %s: %w", all, err)
	}
	return nil
}

// keptArrays are the arrays that keep the values of the test before: a test that
// uses one writes it first, or compares differences.
var keptArrays = []string{
	"counters", "flow_controls", "flow_hops", "guard_buckets", "interfaces_near", "l2tp_lnses", "l2tp_owner_lengths", "l2tp_sessions",
	"l2tp_states", "l2tp_tunnels", "nat64_imports", "nat64_clock", "nat64_ends", "nat64_flows", "nat64_lost", "nat64_slots",
	"nat64_stateful_configs", "nat64_sweep_states", "nat64_sweep_timers", "nat64_traffic", "nat64_usages", "neighbours", "nexthop_groups",
	"nexthops", "pseudowire_scratch", "slow_windows",
}

// fill writes what is desired of the datapath's tables. The programs are
// attached nowhere. An interface must have some XDP program, or it has no
// receive queue that BPF_PROG_RUN accepts: it gets one that passes all.
func (b *Bench) fill() error {
	for _, o := range b.Desired {
		if _, attach := o.(state.Attachment); attach || o.Domain() != state.Datapath {
			continue
		}
		if err := b.Datapath.Apply(b.T.Context(), state.Step{Op: state.Add, Object: o}); err != nil {
			return err
		}
	}
	pass, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.XDP, License: "Apache-2.0",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()},
	})
	if err != nil {
		return fmt.Errorf("load a program that passes all: %w", err)
	}
	defer pass.Close()
	for _, name := range []string{"lan", "wan"} {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		if err := netlink.LinkSetXdpFd(l, pass.FD()); err != nil {
			return fmt.Errorf("attach xdp to %s: %w", name, err)
		}
	}
	return nil
}

// SetPorts changes the programs' configuration of lan and wan.
func (b *Bench) SetPorts(change func(*state.IngressEntry)) {
	b.T.Helper()
	b.In(func() error {
		for _, o := range b.Desired {
			if p, ok := o.(state.IngressEntry); ok {
				change(&p)
				if err := b.Datapath.Apply(b.T.Context(), state.Step{Op: state.Change, Object: p}); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// Result is a program's verdict on a frame, and the frame afterwards.
type Result struct {
	Verdict uint32
	Frame   []byte
	Counted map[string]uint64 // packets by "program outcome", those that changed
	Err     error
}

// frame puts an Ethernet header before an IP packet, addressed to device as
// from a neighbour.
func (b *Bench) Frame(device string, ip []byte) []byte {
	mac := b.Links[device].MAC
	f := append(append([]byte{}, mac[:]...), 0x02, 0, 0, 0, 0x77, 0x77, 0x08, 0x00)
	if len(ip) > 0 && ip[0]>>4 == 6 {
		f[12], f[13] = 0x86, 0xdd
	}
	return append(f, ip...)
}

// Run runs a program over frames, one after the other, as arriving on device;
// translator_egress sees them leave by the translator's device.
func (b *Bench) Run(program, device string, frames ...[]byte) []Result {
	b.T.Helper()
	results := make([]Result, len(frames))
	b.In(func() error {
		before, err := b.Counters()
		if err != nil {
			return err
		}
		for i, frame := range frames {
			results[i] = b.runOne(program, device, frame)
			after, err := b.Counters()
			if err != nil {
				return err
			}
			results[i].Counted, before = Difference(before, after), after
		}
		return nil
	})
	return results
}

func (b *Bench) runOne(program, device string, frame []byte) Result {
	out := make([]byte, len(frame)+64)
	options := ebpf.RunOptions{Data: frame, DataOut: out}
	if program == "ingress_xdp" {
		options.Context = xdpContext{DataEnd: uint32(len(frame)), Ingress: uint32(b.Links[device].Index)}
	} else {
		options.Context = b.SkbContext(program, device)
	}
	prog, err := b.Load(program)
	if err != nil {
		return Result{Err: err}
	}
	verdict, err := prog.Run(&options)
	return Result{Verdict: verdict, Frame: options.DataOut, Err: err}
}

// xdpContext is struct xdp_md of linux/bpf.h.
type xdpContext struct {
	Data, DataEnd, Meta, Ingress, Queue, Egress uint32
}

// skbContext is struct __sk_buff of linux/bpf.h; the fields that are named are
// those that may be set.
type SkbContext struct {
	_       [9]uint32
	Ingress uint32
	Ifindex uint32
	_       [33]uint32
	GSOSize uint32
	_       [3]uint32
}

func (b *Bench) SkbContext(program, device string) SkbContext {
	index := uint32(b.Links[device].Index)
	if program != "translator_egress" {
		return SkbContext{Ingress: index, Ifindex: index}
	}
	return SkbContext{Ingress: index, Ifindex: uint32(b.Links["nat64-main"].Index)}
}

// counters reads all of them in one call: there are as many reads as packets.
func (b *Bench) Counters() (map[string]uint64, error) {
	m := b.Table("counters")
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, err
	}
	keys := make([]uint32, m.MaxEntries())
	values := make([]uint64, len(keys)*cpus)
	var at ebpf.MapBatchCursor
	if n, err := m.BatchLookup(&at, keys, values, nil); n != len(keys) && err != nil {
		return nil, fmt.Errorf("read counters: %w", err)
	}
	all := map[string]uint64{}
	for i, key := range keys {
		if n := datapath.Sum(values[i*cpus : (i+1)*cpus]); n != 0 {
			program, o := key/uint32(state.OutcomeCount), state.Outcome(key)%state.OutcomeCount
			all[datapath.ProgramNames()[program]+" "+o.String()] = n
		}
	}
	return all, nil
}

func Difference(before, after map[string]uint64) map[string]uint64 {
	d := maps.Clone(after)
	for k, n := range before {
		if d[k] -= n; d[k] == 0 {
			delete(d, k)
		}
	}
	return d
}

func Addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func AddrOf(b []byte) string {
	a, _ := netip.AddrFromSlice(b)
	return a.String()
}
