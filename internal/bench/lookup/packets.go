package lookup

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net"
	"net/netip"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"golang.org/x/sys/unix"

	"weft/fib"
	"weft/internal/bench/rig"
	"weft/internal/datapath"
	"weft/internal/place"
	"weft/internal/state"
)

// forwarding measures packets that cross the router, their destinations spread
// over the whole table. What routes them is attached for each measurement.
type forwarding struct {
	path     *rig.Path
	spread   spreadObjects
	pins     string
	datapath *datapath.Datapath
	routes   *datapath.Routes
	forward  xdpForwardObjects
	words    []*datapath.Words
	sink     *rig.Sink
	frame    []byte
	programs map[string]*ebpf.Program
}

const (
	packetBytes = 64 // of IPv4
	frameMax    = 128
	warmUp      = 50 * time.Millisecond
	burst       = 400 * time.Millisecond
)

// openForwarding prepares the router that has all routes in its kernel: the
// gateways' link addresses, and weft's tables for the same routes.
func openForwarding(ctx context.Context, k *kernelTable, prefixes []netip.Prefix, o Options) (*forwarding, error) {
	f := &forwarding{path: k.Path}
	if err := f.open(ctx, k, prefixes, o); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare to forward packets: %w", err), f.Close())
	}
	return f, nil
}

func (f *forwarding) open(ctx context.Context, k *kernelTable, prefixes []netip.Prefix, o Options) error {
	far, err := rig.MAC(k.Right, "eth0")
	if err != nil {
		return err
	}
	err = k.batch(ctx, func(w *bufio.Writer) {
		for hop := range uint32(hops) {
			fmt.Fprintf(w, "neigh replace %s lladdr %s dev wan nud permanent\n", gateway(prefixes[0], hop+1), far)
		}
	})
	if err != nil {
		return err
	}
	if f.sink, err = k.NewSink(k.Right); err != nil {
		return err
	}
	if err := loadXdpForwardObjects(&f.forward, nil); err != nil {
		return err
	}
	if err := f.loadRoutes(k, far, prefixes, o.Seed); err != nil {
		return err
	}
	f.programs = map[string]*ebpf.Program{xdpForward: f.forward.XdpForward}
	return f.loadGenerator(k, prefixes, o.Seed)
}

// loadRoutes opens the datapath of weft run in the router, with the table and
// next hops: packets that arrive by lan are routed.
func (f *forwarding) loadRoutes(k *kernelTable, far net.HardwareAddr, prefixes []netip.Prefix, seed uint64) error {
	cookie, err := k.Router.Cookie()
	if err != nil {
		return err
	}
	near, err1 := rig.MAC(k.Router, "wan")
	arriving, err2 := rig.MAC(k.Router, "lan")
	out, err3 := indexOf(k, "wan")
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	f.pins = place.Of(cookie).Pins
	if f.datapath, err = datapath.Open(f.pins, datapath.Options{}); err != nil {
		return err
	}
	err = k.Router.Do(func() error {
		for _, o := range []state.Object{
			state.RouteTables{Words4: int(words[4]), Words6: int(words[6])},
			state.Port{Device: "lan", MAC: [6]byte(arriving), Routed: true},
		} {
			if err := f.datapath.Apply(context.Background(), state.Step{Op: state.Add, Object: o}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if f.routes, err = f.datapath.Routes(); err != nil {
		return err
	}
	memory, err := f.routes.Words4(0)
	if err != nil {
		return err
	}
	table, err := fib.New4(memory)
	if err != nil {
		return err
	}
	first, _ := f.routes.Range()
	if err := table.Build(numbered(routes(prefixes, seed), first)); err != nil {
		return err
	}
	to := state.NeighbourEntry{IfIndex: out, MTU: 1500, Dst: [6]byte(far), Src: [6]byte(near), XDP: true}
	errs := []error{f.routes.SetNeighbour(first, to)}
	for hop := range uint32(hops) {
		errs = append(errs, f.routes.SetNexthop(first+hop+1, state.Nexthop{Kind: state.NexthopNeighbour, Index: first}))
	}
	return errors.Join(append(errs, f.routes.Publish())...)
}

// numbered moves the numbers of next hops to where they may be.
func numbered(routes iter.Seq2[netip.Prefix, uint32], first uint32) iter.Seq2[netip.Prefix, uint32] {
	return func(yield func(netip.Prefix, uint32) bool) {
		for p, hop := range routes {
			if !yield(p, first+hop) {
				return
			}
		}
	}
}

func indexOf(k *kernelTable, device string) (index uint32, err error) {
	err = k.Router.Do(func() error {
		dev, err := net.InterfaceByName(device)
		if err == nil {
			index = uint32(dev.Index)
		}
		return err
	})
	return index, err
}

// loadGenerator makes the packets: UDP to the sink's port, the destinations
// drawn from the table.
func (f *forwarding) loadGenerator(k *kernelTable, prefixes []netip.Prefix, seed uint64) error {
	near, err1 := rig.MAC(k.Left, "eth0")
	router, err2 := rig.MAC(k.Router, "lan")
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	ip := &layers.IPv4{
		Version: 4, TTL: 64, Protocol: layers.IPProtocolUDP,
		SrcIP: lan.Host[0].Addr().AsSlice(), DstIP: net.IPv4zero.To4(),
	}
	buffer := gopacket.NewSerializeBuffer()
	// Without a checksum in UDP (RFC 768): the destination is not known yet.
	err := gopacket.SerializeLayers(buffer, gopacket.SerializeOptions{FixLengths: true},
		&layers.UDP{SrcPort: 4000, DstPort: 9}, gopacket.Payload(make([]byte, packetBytes-28)))
	if err != nil {
		return err
	}
	rest := gopacket.Payload(append([]byte{}, buffer.Bytes()...))
	err = gopacket.SerializeLayers(buffer, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true},
		&layers.Ethernet{SrcMAC: near, DstMAC: router, EthernetType: layers.EthernetTypeIPv4}, ip, rest)
	if err != nil {
		return err
	}
	f.frame = append([]byte{}, buffer.Bytes()...)
	var whole [frameMax]byte
	copy(whole[:], f.frame)
	spec, err := loadSpread()
	if err != nil {
		return err
	}
	var out uint32
	err = k.Left.Do(func() error {
		dev, err := net.InterfaceByName("eth0")
		if err == nil {
			out = uint32(dev.Index)
		}
		return err
	})
	err = errors.Join(err, spec.Variables["frame"].Set(whole),
		spec.Variables["frame_len"].Set(uint32(len(f.frame))), spec.Variables["out"].Set(out))
	if err != nil {
		return err
	}
	if err := spec.LoadAndAssign(&f.spread, nil); err != nil {
		return err
	}
	w, err := datapath.MapWords(f.spread.Destinations)
	if err != nil {
		return err
	}
	f.words = append(f.words, w)
	rng := rand.New(rand.NewPCG(seed, 3))
	for i, a := range draw(rng, prefixes, inTable) {
		b := a.As4()
		w.Words[i] = uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	}
	return nil
}

// Close lets go of the programs; the path is the kernel table's.
func (f *forwarding) Close() error {
	var errs []error
	for _, w := range f.words {
		errs = append(errs, w.Close())
	}
	if f.routes != nil {
		errs = append(errs, f.routes.Close())
	}
	if f.datapath != nil {
		errs = append(errs, f.datapath.Close(), datapath.Remove(f.pins))
	}
	return errors.Join(append(errs, f.spread.Close(), f.forward.Close())...)
}

// packets gives how many arrive in a second.
func (f *forwarding) packets(subject string) (float64, error) {
	if subject == weftXDP {
		return f.packetsOfWeft()
	}
	if program := f.programs[subject]; program != nil {
		l, err := f.attach(program)
		if err != nil {
			return 0, fmt.Errorf("attach %s to lan: %w", subject, err)
		}
		defer l.Close()
	}
	return f.arriving(subject)
}

// packetsOfWeft attaches weft's own program for as long as it is measured.
func (f *forwarding) packetsOfWeft() (pps float64, err error) {
	program := state.Attachment{Device: "lan", Hook: state.HookXDP, Program: "ingress_xdp", Build: "bench"}
	apply := func(op state.Op) error {
		return f.path.Router.Do(func() error {
			return f.datapath.Apply(context.Background(), state.Step{Op: op, Object: program})
		})
	}
	if err := apply(state.Add); err != nil {
		return 0, err
	}
	pps, err = f.arriving(weftXDP)
	return pps, errors.Join(err, apply(state.Remove))
}

func (f *forwarding) attach(program *ebpf.Program) (l link.Link, err error) {
	err = f.path.Router.Do(func() error {
		dev, err := net.InterfaceByName("lan")
		if err != nil {
			return err
		}
		l, err = link.AttachXDP(link.XDPOptions{Program: program, Interface: dev.Index, Flags: link.XDPDriverMode})
		return err
	})
	return l, err
}

func (f *forwarding) arriving(subject string) (float64, error) {
	if _, err := f.send(warmUp); err != nil {
		return 0, err
	}
	before, err := f.sink.Arrived(false)
	if err != nil {
		return 0, err
	}
	took, err := f.send(burst)
	if err != nil {
		return 0, err
	}
	after, err := f.sink.Arrived(false)
	if err != nil || after == before {
		return 0, errors.Join(err, fmt.Errorf("%s: %d packets have arrived", subject, after-before))
	}
	return float64(after-before) / took.Seconds(), f.sink.Verify(false, packetBytes)
}

func (f *forwarding) send(atLeast time.Duration) (took time.Duration, err error) {
	err = f.path.Left.Do(func() error {
		start := time.Now()
		for took < atLeast {
			_, err := f.spread.Spread.Run(&ebpf.RunOptions{Data: f.frame, Repeat: 1 << 15, Flags: unix.BPF_F_TEST_XDP_LIVE_FRAMES, BatchSize: 64})
			if err != nil {
				return fmt.Errorf("generate packets: %w", err)
			}
			took = time.Since(start)
		}
		return nil
	})
	return took, err
}
