package lookup

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/netip"
	"time"

	"github.com/cilium/ebpf"

	"weft/fib"
	"weft/internal/bench/rig"
	"weft/internal/datapath"
	"weft/internal/datapath/alltables"
	"weft/internal/datapath/fibtable"
	"weft/internal/paths"
	"weft/internal/state"
)

// forwarding measures packets that cross the router, their destinations spread over
// the whole table. The measured program is attached for each measurement.
type forwarding struct {
	path     *rig.Path
	scatter  map[int]*scatter
	pins     string
	datapath *datapath.Datapath
	routes   *fibtable.Routes
	forward  *ebpf.Program
	sink     *rig.Sink
	router   *rig.Receivers // what it does on a CPU of its own; nil: there is only one
}

const (
	warmUp = 50 * time.Millisecond
	burst  = 400 * time.Millisecond
)

// openForwarding prepares the router that has all routes in its kernel: the
// gateways' link addresses, and weft's tables for the same routes.
func openForwarding(ctx context.Context, k *kernelTable, prefixes map[int][]netip.Prefix, o Options) (*forwarding, error) {
	f := &forwarding{path: k.Path, scatter: map[int]*scatter{}}
	if err := f.open(ctx, k, prefixes, o); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare to forward packets: %w", err), f.Close())
	}
	return f, nil
}

func (f *forwarding) open(ctx context.Context, k *kernelTable, prefixes map[int][]netip.Prefix, o Options) error {
	far, err := rig.MAC(k.Right, "eth0")
	if err != nil {
		return err
	}
	err = k.batch(ctx, func(w *bufio.Writer) {
		for hop := range uint32(hops) {
			for _, family := range families {
				fmt.Fprintf(w, "neigh replace %s lladdr %s dev wan nud permanent\n", gateway(prefixes[family][0], hop+1), far)
			}
		}
	})
	if err != nil {
		return err
	}
	if f.sink, err = k.NewSink(k.Right); err != nil {
		return err
	}
	if err := f.part(ctx, k.Path); err != nil {
		return err
	}
	if f.forward, err = k.XDPForward(); err != nil {
		return err
	}
	if err := f.loadRoutes(k, far, prefixes, o.Seed); err != nil {
		return err
	}
	for _, family := range families {
		if f.scatter[family], err = newScatter(k, family, prefixes[family], o.Seed); err != nil {
			return err
		}
	}
	return nil
}

// loadRoutes opens the datapath of weft run in the router, with the tables and
// next hops: packets that arrive by lan are routed.
func (f *forwarding) loadRoutes(k *kernelTable, far net.HardwareAddr, prefixes map[int][]netip.Prefix, seed uint64) error {
	cookie, err := k.Router.Cookie()
	if err != nil {
		return err
	}
	near, err1 := rig.MAC(k.Router, "wan")
	arriving, err2 := rig.MAC(k.Router, "lan")
	out, err3 := rig.DeviceIndex(k.Router, "wan")
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	f.pins = paths.Of(cookie).Pins
	if f.datapath, err = alltables.Open(f.pins, datapath.Options{}); err != nil {
		return err
	}
	err = k.Router.Do(func() error {
		for _, o := range []state.Object{
			state.RouteTables{Words4: int(words[4]), Words6: int(words[6])},
			state.IngressEntry{Device: "lan", MAC: [6]byte(arriving), Roles: state.RoleRouted},
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
	if f.routes, err = fibtable.Of(f.datapath).Routes(); err != nil {
		return err
	}
	first, _ := f.routes.Range()
	for _, family := range families {
		if err := f.fill(family, numbered(routes(prefixes[family], seed), first)); err != nil {
			return err
		}
	}
	to := state.NeighbourEntry{IfIndex: uint32(out), MTU: 1500, Dst: [6]byte(far), Src: [6]byte(near), XDP: true}
	errs := []error{f.routes.SetNeighbour(first, to)}
	for hop := range uint32(hops) {
		errs = append(errs, f.routes.SetNexthop(first+hop+1, state.Nexthop{Kind: state.NexthopNeighbour, Index: first}))
	}
	return errors.Join(append(errs, f.routes.Publish())...)
}

func (f *forwarding) fill(family int, routes iter.Seq2[netip.Prefix, uint32]) error {
	memory, create := f.routes.Words4, fib.New4
	if family == 6 {
		memory, create = f.routes.Words6, fib.New6
	}
	words, err := memory(0)
	if err != nil {
		return err
	}
	table, err := create(words)
	if err != nil {
		return err
	}
	return table.Build(routes)
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

// part makes the router work on a CPU of its own, as a tester and the device under
// test are two machines (RFC 2544 6), so that its work can be measured apart from
// the generator's. The counter of packets works there too: a thread elsewhere would
// have to be woken, by the kernel for each packet and by XDP for many at a time.
// With one CPU nothing is moved.
func (f *forwarding) part(ctx context.Context, p *rig.Path) error {
	first, last, err := rig.CPUs()
	if err != nil || first == last {
		return err
	}
	f.router, err = p.Receive(ctx, p.Router, first, "lan")
	return err
}

// Forwarding describes on which CPU the router works.
func (m *Measurer) Forwarding() string {
	if m.packets != nil && m.packets.router != nil {
		return "a second is one that router and receiver work, on a CPU of their own"
	}
	return "generator, router and receiver on one CPU"
}

// Close lets go of the programs; the path is the kernel table's.
func (f *forwarding) Close() error {
	var errs []error
	for _, s := range f.scatter {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	if f.routes != nil {
		errs = append(errs, f.routes.Close())
	}
	if f.datapath != nil {
		errs = append(errs, f.datapath.Close(), datapath.Remove(f.pins))
	}
	return errors.Join(errs...)
}

// packets returns how many of a family arrive in a second.
func (f *forwarding) packets(subject string, family int) (float64, error) {
	switch subject {
	case weftXDP:
		return f.packetsOfWeft(family)
	case xdpForward:
		l, err := rig.AttachXDP(f.path.Router, "lan", f.forward)
		if err != nil {
			return 0, err
		}
		pps, err := f.arriving(subject, family)
		return pps, errors.Join(err, l.Close())
	}
	return f.arriving(subject, family)
}

// packetsOfWeft attaches weft's own program for as long as it is measured.
func (f *forwarding) packetsOfWeft(family int) (pps float64, err error) {
	program := state.Attachment{Device: "lan", Hook: state.HookXDP, Program: "ingress_xdp", Build: "bench"}
	apply := func(op state.Op) error {
		return f.path.Router.Do(func() error {
			return f.datapath.Apply(context.Background(), state.Step{Op: op, Object: program})
		})
	}
	if err := apply(state.Add); err != nil {
		return 0, err
	}
	pps, err = f.arriving(weftXDP, family)
	return pps, errors.Join(err, apply(state.Remove))
}

func (f *forwarding) arriving(subject string, family int) (float64, error) {
	six := family == 6
	if _, err := f.scatter[family].send(warmUp); err != nil {
		return 0, err
	}
	before, err := f.sink.Received(six)
	if err != nil {
		return 0, err
	}
	took, err := f.working(func() (time.Duration, error) { return f.scatter[family].send(burst) })
	if err != nil {
		return 0, err
	}
	after, err := f.sink.Received(six)
	if err != nil || after == before {
		return 0, errors.Join(err, fmt.Errorf("%s: %d packets have arrived", subject, after-before))
	}
	return float64(after-before) / took.Seconds(), f.sink.Verify(six, packetBytes)
}

// working returns how long the router works while packets are sent: it is also idle
// at times. If it shares the generator's CPU, that is the whole time.
func (f *forwarding) working(send func() (time.Duration, error)) (time.Duration, error) {
	if f.router == nil {
		return send()
	}
	before, err := f.router.Busy()
	if err != nil {
		return 0, err
	}
	if _, err := send(); err != nil {
		return 0, err
	}
	after, err := f.router.Busy()
	return after - before, err
}
