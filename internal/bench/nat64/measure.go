package nat64

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"

	"weft/internal/bench"
	"weft/internal/bench/rig"
	"weft/internal/lab/netspace"
)

// Options of the measurements.
type Options struct {
	Weft    string  // path of the weft program
	Seconds float64 // of payload that one TCP measurement counts; packets take a third
}

// Measurer has a path for every subject, made when it is first needed. TCP and
// packets have different ones: a sink at the hosts and GRO at the router would
// be in the way of TCP.
type Measurer struct {
	o      Options
	cases  map[string]measurement
	tcp    map[string]*rig.Path
	packet map[string]*packetPath
}

// Open prepares to measure.
func Open(ctx context.Context, o Options) (*Measurer, error) {
	if err := rig.Sweep(ctx); err != nil {
		return nil, err
	}
	_, parts := cases()
	return &Measurer{o, parts, map[string]*rig.Path{}, map[string]*packetPath{}}, nil
}

// Close takes all paths down.
func (m *Measurer) Close(ctx context.Context) error {
	var errs []error
	for _, p := range m.tcp {
		errs = append(errs, p.Close(ctx))
	}
	for _, p := range m.packet {
		errs = append(errs, p.Close(ctx))
	}
	return errors.Join(errs...)
}

// Measure measures a subject in a case, once.
func (m *Measurer) Measure(ctx context.Context, c, name string) (float64, error) {
	return m.suite().Measure(ctx, c, name)
}

func (m *Measurer) suite() bench.Suite[subject, measurement, kind] {
	return bench.Suite[subject, measurement, kind]{
		Parts: m.cases, Subjects: subjects(), Kind: func(c measurement) kind { return c.kind },
		Measures: map[kind]func(context.Context, subject, measurement) (float64, error){
			tcp: m.goodput, pps: m.packets, timed: m.runTime,
		},
	}
}

// newPath makes the path of a subject and starts its router.
func newPath(ctx context.Context, o rig.PathOptions, s subject, weft string) (*rig.Path, []*ebpf.Program, error) {
	o.Lan, o.Wan, o.Forward, o.Policy = left, right, !s.unmanaged, policy
	o.HostGRO, o.NoChecksum = s.xdp, s.xdp
	p, err := rig.NewPath(o)
	if err != nil {
		return nil, nil, err
	}
	programs, err := s.start(ctx, p, weft)
	for _, to := range []direction{to4, to6} {
		if err == nil {
			out, _ := s.pair(to)
			err = p.Ping(ctx, sender(p, to), out.to)
		}
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("start %s: %w", s.name, err), p.Close(context.WithoutCancel(ctx)))
	}
	return p, programs, nil
}

func sender(p *rig.Path, to direction) *netspace.Space {
	if to == to6 {
		return p.Right
	}
	return p.Left
}

func receiver(p *rig.Path, to direction) *netspace.Space { return sender(p, !to) }

// goodput is measured on paths with an iperf3 server at both ends.
func (m *Measurer) goodput(ctx context.Context, s subject, c measurement) (float64, error) {
	p, ok := m.tcp[s.name]
	if !ok {
		var err error
		if p, _, err = newPath(ctx, rig.PathOptions{Name: s.name + "-tcp"}, s, m.o.Weft); err != nil {
			return 0, err
		}
		m.tcp[s.name] = p
		if err := errors.Join(p.ServeTCP(ctx, p.Left), p.ServeTCP(ctx, p.Right)); err != nil {
			return 0, err
		}
	}
	out, _ := s.pair(c.to)
	return p.TCP(ctx, sender(p, c.to), out.to, c.flows, bench.TCPSeconds(m.o.Seconds))
}

// packetPath has a sink at both ends, and generators by direction and length.
type packetPath struct {
	*rig.Path
	sinks      map[direction]*rig.Sink
	generators map[measurement]*rig.Generator
	programs   []*ebpf.Program
}

func (p *packetPath) Close(ctx context.Context) error {
	var errs []error
	for _, g := range p.generators {
		errs = append(errs, g.Close())
	}
	return errors.Join(append(errs, p.Path.Close(ctx))...)
}

func (m *Measurer) packetPath(ctx context.Context, s subject) (*packetPath, error) {
	if p, ok := m.packet[s.name]; ok {
		return p, nil
	}
	path, programs, err := newPath(ctx, rig.PathOptions{Name: s.name + "-pps", RouterGRO: true}, s, m.o.Weft)
	if err != nil {
		return nil, err
	}
	p := &packetPath{path, map[direction]*rig.Sink{}, map[measurement]*rig.Generator{}, programs}
	m.packet[s.name] = p
	for _, to := range []direction{to4, to6} {
		if p.sinks[to], err = p.NewSink(receiver(path, to)); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// generator returns the one that makes the packets of a case.
func (p *packetPath) generator(s subject, c measurement) (*rig.Generator, error) {
	key := measurement{to: c.to, length: c.length}
	if g, ok := p.generators[key]; ok {
		return g, nil
	}
	host, device := sender(p.Path, c.to), "lan"
	if c.to == to6 {
		device = "wan"
	}
	from, err := rig.MAC(host, "eth0")
	if err != nil {
		return nil, err
	}
	to, err := rig.MAC(p.Router, device)
	if err != nil {
		return nil, err
	}
	out, _ := s.pair(c.to)
	g, err := rig.NewGenerator(host, rig.Datagrams{FromMAC: from, ToMAC: to, From: out.from, To: out.to, Length: length(c, out)})
	if err != nil {
		return nil, err
	}
	p.generators[key] = g
	return g, nil
}

// length is that of a case's packets in the family of a flow.
func length(c measurement, f flow) int {
	if f.from.Is6() {
		return c.length + grows
	}
	return c.length
}

// burst sends for some time and tells how many packets came through, of how
// many, in how long. What came is inspected.
func (p *packetPath) burst(s subject, c measurement, atLeast time.Duration) (came uint64, took time.Duration, err error) {
	g, err := p.generator(s, c)
	if err != nil {
		return 0, 0, err
	}
	_, in := s.pair(c.to)
	sink, is6 := p.sinks[c.to], in.from.Is6()
	before, err := sink.Received(is6)
	if err != nil {
		return 0, 0, err
	}
	if took, err = g.Run(atLeast); err != nil {
		return 0, 0, err
	}
	after, err := sink.Received(is6)
	if err != nil {
		return 0, 0, err
	}
	if after == before {
		return 0, 0, errors.New("no packet has arrived")
	}
	return after - before, took, sink.Verify(is6, length(c, in))
}

// warmUp comes before what counts.
const warmUp = 20 * time.Millisecond

func (m *Measurer) packetTime() time.Duration {
	return time.Duration(m.o.Seconds / 3 * float64(time.Second))
}

func (m *Measurer) packets(ctx context.Context, s subject, c measurement) (float64, error) {
	p, err := m.packetPath(ctx, s)
	if err != nil {
		return 0, err
	}
	if _, _, err := p.burst(s, c, warmUp); err != nil {
		return 0, err
	}
	came, took, err := p.burst(s, c, m.packetTime())
	return float64(came) / took.Seconds() / 1e6, err
}

// runTime is how long the router's eBPF programs work on a packet, in traffic
// as in the packet cases, the kernel's own clock on them.
func (m *Measurer) runTime(ctx context.Context, s subject, c measurement) (float64, error) {
	p, err := m.packetPath(ctx, s)
	if err != nil {
		return 0, err
	}
	if _, _, err := p.burst(s, c, warmUp); err != nil {
		return 0, err
	}
	clock, err := rig.StartClock()
	if err != nil {
		return 0, err
	}
	defer clock.Close()
	before, err := rig.TimesOf(p.programs)
	if err != nil {
		return 0, err
	}
	came, _, err := p.burst(s, c, m.packetTime())
	if err != nil {
		return 0, err
	}
	after, err := rig.TimesOf(p.programs)
	return rig.PerPacket(before, after, came, clock.Floor), err
}
