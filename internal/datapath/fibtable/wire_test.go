package fibtable_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weft/fib"
	"weft/internal/datapath"
	"weft/internal/datapath/datapathtest"
	"weft/internal/datapath/fibtable"
	"weft/internal/lab/netspace"
	"weft/internal/lab/netspace/spacetest"
	"weft/internal/state"
)

// Frames on real devices, with the programs attached and pinned:
//
//	lan-far ---- lan [programs] wan ---- wan-far
//
// Both far ends are in the router's namespace too, and spoken to by packet
// sockets.

// wire is a router with the devices above, and the datapath pinned for it.
type wire struct {
	t        *testing.T
	space    *netspace.Space
	dir      string
	datapath *datapath.Datapath
	links    map[string]*net.Interface
	sockets  map[string]int
}

const (
	smallWords4 = fib.MinWords4 + 4096
	smallWords6 = fib.MinWords6 + 4096
)

// newWire attaches programs to lan.
func newWire(t *testing.T, programs ...string) *wire {
	t.Helper()
	w := &wire{t: t, space: spacetest.New(t, "router"), links: map[string]*net.Interface{}, sockets: map[string]int{}}
	cookie, err := w.space.Cookie()
	if err != nil {
		t.Fatal(err)
	}
	w.dir = fmt.Sprintf("/sys/fs/bpf/wefttest-%d", cookie)
	t.Cleanup(func() {
		if err := datapath.Remove(w.dir); err != nil {
			t.Error(err)
		}
	})
	w.in(w.makeDevices)
	w.open()
	w.apply(state.Add, state.RouteTables{Words4: smallWords4, Words6: smallWords6})
	w.apply(state.Add, w.port("lan"))
	for _, p := range programs {
		hook := map[string]state.Hook{"ingress_xdp": state.HookXDP, "ingress_tc": state.HookIngress}[p]
		w.apply(state.Add, state.Attachment{Device: "lan", Hook: hook, Program: p, Build: "test"})
	}
	return w
}

func (w *wire) port(device string) state.IngressEntry {
	return state.IngressEntry{Device: device, MAC: [6]byte(w.links[device].HardwareAddr), Roles: state.RoleRouted}
}

func (w *wire) in(f func() error) {
	w.t.Helper()
	if err := w.space.Do(f); err != nil {
		w.t.Fatal(err)
	}
}

// open opens the datapath as another process would.
func (w *wire) open() {
	w.t.Helper()
	if w.datapath != nil {
		if err := w.datapath.Close(); err != nil {
			w.t.Fatal(err)
		}
	}
	var err error
	if w.datapath, err = datapath.Open(w.dir, datapath.Options{Parts: parts()}); err != nil {
		w.t.Fatal(err)
	}
	d := w.datapath
	w.t.Cleanup(func() { d.Close() })
}

func (w *wire) apply(op state.Op, o state.Object) {
	w.t.Helper()
	w.in(func() error { return w.datapath.Apply(w.t.Context(), state.Step{Op: op, Object: o}) })
}

func (w *wire) makeDevices() error {
	for _, name := range []string{"lan", "wan"} {
		veth := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: name + "-far"}
		veth.Name = name
		if err := netlink.LinkAdd(veth); err != nil {
			return fmt.Errorf("make %s: %w", name, err)
		}
	}
	for _, name := range []string{"lan", "lan-far", "wan", "wan-far"} {
		// what the kernel says of itself would only be in the way
		if err := os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/disable_ipv6", []byte("1"), 0o644); err != nil {
			return err
		}
		l, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		if err := netlink.LinkSetUp(l); err != nil {
			return fmt.Errorf("set %s up: %w", name, err)
		}
		if w.links[name], err = net.InterfaceByName(name); err != nil {
			return err
		}
	}
	for _, name := range []string{"lan-far", "wan-far"} {
		if err := w.openSocket(name); err != nil {
			return fmt.Errorf("open a packet socket on %s: %w", name, err)
		}
	}
	return w.takeXDP("wan-far")
}

// takeXDP has a veth's end take redirected frames: some XDP program must be
// there (veth_xdp_xmit of Linux).
func (w *wire) takeXDP(device string) error {
	pass, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.XDP, License: "Apache-2.0",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()},
	})
	if err != nil {
		return err
	}
	defer pass.Close()
	l, err := link.AttachXDP(link.XDPOptions{Program: pass, Interface: w.links[device].Index, Flags: link.XDPDriverMode})
	if err != nil {
		return err
	}
	w.t.Cleanup(func() { l.Close() })
	return nil
}

func (w *wire) openSocket(device string) error {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(datapath.Htons(unix.ETH_P_ALL)))
	if err != nil {
		return err
	}
	w.sockets[device] = fd
	w.t.Cleanup(func() { unix.Close(fd) })
	return errors.Join(
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: datapath.Htons(unix.ETH_P_ALL), Ifindex: w.links[device].Index}),
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1),
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 3}))
}

// cross sends a frame from lan-far and gives what comes out of wan-far.
func (w *wire) cross(frame []byte) []byte {
	w.t.Helper()
	if _, err := unix.Write(w.sockets["lan-far"], frame); err != nil {
		w.t.Fatalf("send: %v", err)
	}
	return w.receive("wan-far")
}

// receive returns the next frame of a device, the tag that the kernel keeps
// beside it put back (packet(7), PACKET_AUXDATA).
func (w *wire) receive(device string) []byte {
	w.t.Helper()
	buffer, control := make([]byte, 65536), make([]byte, 256)
	n, controls, _, _, err := unix.Recvmsg(w.sockets[device], buffer, control, 0)
	if err != nil {
		w.t.Fatalf("receive on %s: %v", device, err)
	}
	messages, err := unix.ParseSocketControlMessage(control[:controls])
	if err != nil {
		w.t.Fatal(err)
	}
	frame := buffer[:n]
	for _, m := range messages {
		// struct tpacket_auxdata: status, len, snaplen, mac, net, tci, tpid
		if m.Header.Level != unix.SOL_PACKET || m.Header.Type != unix.PACKET_AUXDATA || len(m.Data) < 20 {
			continue
		}
		if binary.NativeEndian.Uint32(m.Data)&unix.TP_STATUS_VLAN_VALID != 0 {
			tag := state.VLANTag{Proto: binary.NativeEndian.Uint16(m.Data[18:]), ID: binary.NativeEndian.Uint16(m.Data[16:])}
			frame = datapathtest.Tagged(frame, state.VLANTags{tag}, 0)
		}
	}
	return frame
}

// begin fills a generation whose only route leads to a neighbour.
func (w *wire) begin(n state.NeighbourEntry) *fibtable.Routes {
	w.t.Helper()
	routes, err := fibtable.Of(w.datapath).Routes()
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { routes.Close() })
	first, _ := routes.Range()
	words4, err4 := routes.Words4(0)
	words6, err6 := routes.Words6(0)
	table4, err44 := fib.New4(words4)
	table6, err66 := fib.New6(words6)
	err = errors.Join(err4, err6, err44, err66,
		routes.SetNeighbour(first, n), routes.SetNexthop(first, state.Nexthop{Kind: state.NexthopNeighbour, Index: first}),
		table4.Insert(netip.MustParsePrefix("198.51.100.0/24"), first),
		table6.Insert(netip.MustParsePrefix("2001:db8:1::/48"), first))
	if err != nil {
		w.t.Fatal(err)
	}
	return routes
}

func (w *wire) publish(r *fibtable.Routes) {
	w.t.Helper()
	w.in(r.Publish)
}

// neighbour is one behind wan, whose link address ends in a number.
func (w *wire) neighbour(number byte) state.NeighbourEntry {
	return state.NeighbourEntry{
		IfIndex: uint32(w.links["wan"].Index), MTU: 1500, XDP: true,
		Dst: [6]byte{2, 0, 0, 0, 1, number}, Src: [6]byte(w.links["wan"].HardwareAddr),
	}
}

// frame puts an Ethernet header before a packet, addressed to lan.
func (w *wire) frame(p datapathtest.Packet) []byte {
	kind := uint16(0x0800)
	if datapathtest.Addr(p.From).Is6() {
		kind = 0x86dd
	}
	f := append(bytes.Clone(w.links["lan"].HardwareAddr), 2, 0, 0, 0, 0x77, 0x77)
	return append(binary.BigEndian.AppendUint16(f, kind), p.Bytes()...)
}

// count returns how many packets met an outcome.
func (w *wire) count(program string, o state.Outcome) uint64 {
	w.t.Helper()
	counts, err := w.datapath.Counts()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, c := range counts {
		if c.Program == program && c.Outcome == o {
			return c.Packets
		}
	}
	return 0
}

// counted waits for a counter to have gone up by one from before: the kernel may
// look at a frame later than when it was sent.
func (w *wire) counted(program string, o state.Outcome, before uint64) {
	w.t.Helper()
	n := uint64(0)
	for end := time.Now().Add(20 * time.Second); n == 0 && time.Now().Before(end); {
		n = w.count(program, o) - before
	}
	if n != 1 {
		w.t.Errorf("%d packets of %s met %s, want one", n, program, o)
	}
}

func TestTaggedFramesCrossRealDevices(t *testing.T) {
	for _, build := range datapathtest.Builds {
		t.Run(build, func(t *testing.T) {
			w := newWire(t, build)
			for i, tags := range []state.VLANTags{datapathtest.Vlan7, datapathtest.Qinq} {
				upper := fmt.Sprintf("#%d", 9001+i)
				w.apply(state.Add, state.IngressEntry{Device: upper, MAC: datapathtest.Mac7, Roles: state.RoleRouted})
				w.apply(state.Add, state.Lower{Device: "lan", Tags: tags, Upper: upper})
			}
			for _, out := range []state.VLANTags{datapathtest.NoTags, datapathtest.Vlan8, datapathtest.Qinq} {
				n := w.neighbour(1)
				n.Tags = out
				w.publish(w.begin(n))
				for _, in := range []state.VLANTags{datapathtest.NoTags, datapathtest.Vlan7, datapathtest.Qinq} {
					for _, p := range []datapathtest.Packet{datapathtest.Udp(datapathtest.Router4, "198.51.100.7", 20), datapathtest.Udp(datapathtest.Router6, "2001:db8:1::7", 20)} {
						plain := w.frame(p)
						frame := plain
						if in.Len() > 0 {
							frame = datapathtest.Tagged(datapathtest.To(plain, datapathtest.Mac7), in, 0)
						}
						want := datapathtest.Tagged(datapathtest.Hopped(plain, n), out, 0)
						if got := w.cross(frame); !bytes.Equal(got, want) {
							t.Errorf("from %q to %q:\n     %x, want\n     %x", in, out, got, want)
						}
					}
				}
			}
		})
	}
}

func TestRoutesOutliveTheirDaemonAndChangeInOneStep(t *testing.T) {
	for _, build := range datapathtest.Builds {
		t.Run(build, func(t *testing.T) {
			w := newWire(t, build)
			frame := w.frame(datapathtest.Udp(datapathtest.Router4, "198.51.100.7", 20))
			goes := func(to byte, when string) {
				t.Helper()
				if got := w.cross(frame); got[5] != to {
					t.Errorf("%s it goes to %d, not to %d", when, got[5], to)
				}
			}
			old := w.begin(w.neighbour(1))
			w.publish(old)
			goes(1, "published,")
			w.open()
			goes(1, "without a daemon,")
			next := w.begin(w.neighbour(2))
			goes(1, "while the next tables are filled,")
			w.publish(next)
			goes(2, "with new tables,")

			larger := state.RouteTables{Words4: smallWords4 + 4096, Words6: smallWords6 + 8192}
			w.apply(state.Change, larger)
			goes(2, "with another size set,")
			third := w.begin(w.neighbour(3))
			if words, err := third.Words4(0); err != nil || len(words) != larger.Words4 {
				t.Errorf("the table has %d words (%v)", len(words), err)
			}
			// the daemon dies before it publishes
			w.open()
			if sizes, err := fibtable.Of(w.datapath).RouteTables(); err != nil || len(sizes) != 1 || sizes[0] != larger {
				t.Errorf("the sizes are %v (%v), not %v", sizes, err, larger)
			}
			goes(2, "after a death,")
			fourth := w.begin(w.neighbour(4))
			goes(2, "while tables are filled again,")
			w.publish(fourth)
			goes(4, "with larger tables,")
			if first, _ := fourth.Range(); first == 0 {
				t.Error("number zero is no route")
			}
			w.open()
			view, err := fibtable.Of(w.datapath).ViewRoutes()
			if err != nil {
				t.Fatal(err)
			}
			defer view.Close()
			first, _ := view.Range()
			if n, err := view.NeighbourAt(view.Nexthop(first).Index); err != nil || n != w.neighbour(4) {
				t.Errorf("the neighbour is seen as %+v (%v)", n, err)
			}
			if view.SetNexthop(first, state.Nexthop{}) == nil || view.Publish() == nil {
				t.Error("a view could be changed")
			}

			w.apply(state.Remove, larger)
			if sizes, err := fibtable.Of(w.datapath).RouteTables(); err != nil || len(sizes) != 0 {
				t.Errorf("the sizes are %v (%v) when there are no tables", sizes, err)
			}
			before := w.count(build, state.PassNoRoute)
			if _, err := unix.Write(w.sockets["lan-far"], frame); err != nil {
				t.Fatal(err)
			}
			w.counted(build, state.PassNoRoute, before)
			if _, err := fibtable.Of(w.datapath).Routes(); err == nil {
				t.Error("a generation has begun without tables")
			}
		})
	}
}

// Another version of weft has left tables in a layout that this one's programs
// would read wrongly.
func TestTablesOfAnotherLayoutAreNotRead(t *testing.T) {
	w := newWire(t, "ingress_tc")
	w.publish(w.begin(w.neighbour(1)))
	frame := w.frame(datapathtest.Udp(datapathtest.Router4, "198.51.100.7", 20))
	for _, f := range []string{"fib4", "fib6"} {
		program, err := datapath.Spec("ingress_tc")
		if err != nil {
			t.Fatal(err)
		}
		spec := program.Maps[f].Copy()
		spec.Pinning = ebpf.PinNone
		spec.Name = fmt.Sprintf("%sv%d_%x", f, fib.LayoutVersion+1, smallWords6)
		spec.InnerMap.ValueSize = 4 * smallWords6
		m, err := ebpf.NewMap(spec)
		if err != nil {
			t.Fatal(err)
		}
		pin := filepath.Join(w.dir, "maps", f)
		if err := errors.Join(os.Remove(pin), m.Pin(pin), m.Close()); err != nil {
			t.Fatal(err)
		}
	}
	w.open()
	if sizes, err := fibtable.Of(w.datapath).RouteTables(); err != nil || len(sizes) != 0 {
		t.Errorf("tables of %v are seen (%v)", sizes, err)
	}
	if got := w.cross(frame); got[5] != 1 {
		t.Errorf("what is attached sends to %d", got[5])
	}
	w.apply(state.Add, state.RouteTables{Words4: smallWords4, Words6: smallWords6})
	w.publish(w.begin(w.neighbour(2)))
	if got := w.cross(frame); got[5] != 2 {
		t.Errorf("by new tables it goes to %d", got[5])
	}
}

func TestASecondTableIsPublishedLater(t *testing.T) {
	w := newWire(t, "ingress_tc")
	routes := w.begin(w.neighbour(1))
	w.publish(routes)
	words, err := routes.Words4(5)
	if err != nil {
		t.Fatal(err)
	}
	table, err := fib.New4(words)
	if err != nil {
		t.Fatal(err)
	}
	first, _ := routes.Range()
	n := w.neighbour(9)
	err = errors.Join(routes.SetNeighbour(first+9, n), routes.SetNexthop(first+9, state.Nexthop{Kind: state.NexthopNeighbour, Index: first + 9}),
		table.Insert(netip.MustParsePrefix("198.51.0.0/16"), first+9))
	if err != nil {
		t.Fatal(err)
	}
	w.publish(routes)
	frame := w.frame(datapathtest.Udp(datapathtest.Router4, "198.51.100.7", 20))
	if got := w.cross(frame); got[5] != 1 {
		t.Errorf("by table 0 it goes to %d", got[5])
	}
	port := w.port("lan")
	port.Table = 5
	w.apply(state.Change, port)
	if got := w.cross(frame); got[5] != 9 {
		t.Errorf("by table 5 it goes to %d", got[5])
	}
}
