package stateful

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weft/internal/bench"
	"weft/internal/bench/rig"
)

// Options of the measurements.
type Options struct {
	Weft     string  // path of the weft program
	Seconds  float64 // of payload that one TCP measurement counts; packets take a third
	Seed     uint64
	Sessions int // there are never more; 0: a million
	// Smoke is for a test beside which others run: the machine need not be calm.
	Smoke bool
}

// Measurer has paths for every subject. Those of packets are made again when a case
// wants fewer sessions than there are.
type Measurer struct {
	o       Options
	cases   map[string]measurement
	tcp     map[string]*rig.Path
	packets map[string]*packetPath
	rates   map[string]map[measurement]float64 // by subject
	restore func() error
}

// Open prepares to measure with the subjects named.
func Open(ctx context.Context, o Options, withKernel bool) (*Measurer, error) {
	if o.Sessions == 0 {
		o.Sessions = Million
	}
	_, parts := cases()
	for name, c := range parts {
		c.sessions = min(c.sessions, o.Sessions)
		parts[name] = c
	}
	m := &Measurer{o: o, cases: parts, tcp: map[string]*rig.Path{}, packets: map[string]*packetPath{}, rates: map[string]map[measurement]float64{}, restore: func() error { return nil }}
	if err := rig.Sweep(ctx); err != nil {
		return nil, err
	}
	if withKernel {
		var err error
		if m.restore, err = rig.RaiseConntrack(o.Sessions + o.Sessions/20); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Close takes all paths down.
func (m *Measurer) Close(ctx context.Context) error {
	var errs []error
	for _, p := range m.tcp {
		errs = append(errs, p.Close(ctx))
	}
	for _, p := range m.packets {
		errs = append(errs, p.Close(ctx))
	}
	return errors.Join(append(errs, m.restore())...)
}

// Measure measures a subject in a case, once.
func (m *Measurer) Measure(ctx context.Context, c, name string) (float64, error) {
	return m.suite().Measure(ctx, c, name)
}

func (m *Measurer) suite() bench.Suite[subject, measurement, kind] {
	return bench.Suite[subject, measurement, kind]{
		Parts: m.cases, Subjects: subjects(), Kind: func(c measurement) kind { return c.kind },
		Measures: map[kind]func(context.Context, subject, measurement) (float64, error){
			tcp: m.goodput, setup: m.setup, rate: m.rate, kept: m.kept, memory: m.memory,
		},
	}
}

func (m *Measurer) newPath(ctx context.Context, o rig.PathOptions, s subject) (*rig.Path, error) {
	o.Lan, o.Wan, o.Forward, o.Policy = left, right, s.kernel, policy
	o.HostGRO, o.NoChecksum = s.xdp, s.xdp
	p, err := rig.NewPath(o)
	if err != nil {
		return nil, err
	}
	if err = s.start(ctx, p, m.o.Weft); err == nil {
		err = p.Route(farRoute, right4)
	}
	if err == nil {
		err = p.Ping(ctx, p.Left, s.server())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", s.name, err), p.Close(context.WithoutCancel(ctx)))
	}
	return p, nil
}

// goodput: the IPv6 host opens the connection, whichever way the data go.
func (m *Measurer) goodput(ctx context.Context, s subject, c measurement) (float64, error) {
	p, ok := m.tcp[s.name]
	if !ok {
		var err error
		if p, err = m.newPath(ctx, rig.PathOptions{Name: s.name + "-tcp"}, s); err != nil {
			return 0, err
		}
		m.tcp[s.name] = p
		if err := p.ServeTCP(ctx, p.Right); err != nil {
			return 0, err
		}
	}
	if c.to6 {
		return p.TCPBack(ctx, p.Left, s.server(), bench.TCPSeconds(m.o.Seconds))
	}
	return p.TCP(ctx, p.Left, s.server(), 1, bench.TCPSeconds(m.o.Seconds))
}

// packetPath has a sink at the IPv4 host, and packets of many sessions at the
// other.
type packetPath struct {
	*rig.Path
	sink    *rig.Sink
	traffic *traffic
	open    int    // sessions
	slab    uint64 // bytes of the kernel's objects before there were any
}

func (p *packetPath) Close(ctx context.Context) error {
	var err error
	if p.traffic != nil {
		err = p.traffic.Close()
	}
	return errors.Join(err, p.Path.Close(ctx))
}

// fresh returns a path without sessions.
func (m *Measurer) fresh(ctx context.Context, s subject) (*packetPath, error) {
	if p := m.packets[s.name]; p != nil {
		delete(m.packets, s.name)
		err := p.Close(ctx)
		if !m.o.Smoke {
			err = errors.Join(err, rig.Calm(ctx))
		}
		if err != nil {
			return nil, err
		}
	}
	slab, err := rig.SlabBytes()
	if err != nil {
		return nil, err
	}
	path, err := m.newPath(ctx, rig.PathOptions{Name: s.name + "-pps", RouterGRO: true}, s)
	if err != nil {
		return nil, err
	}
	p := &packetPath{Path: path, slab: slab}
	m.packets[s.name] = p
	if s.kernel {
		if err := path.Sysctl("net/netfilter/nf_conntrack_udp_timeout=300"); err != nil {
			return nil, err
		}
	}
	if p.sink, err = path.NewSink(path.Right); err != nil {
		return nil, err
	}
	p.traffic, err = newTraffic(path, s.datagrams())
	return p, err
}

// with returns a path with so many sessions.
func (m *Measurer) with(ctx context.Context, s subject, n int) (*packetPath, error) {
	p := m.packets[s.name]
	if p == nil || p.open > n {
		var err error
		if p, err = m.fresh(ctx, s); err != nil {
			return nil, err
		}
	}
	_, err := p.grow(n)
	return p, err
}

// grow opens sessions until there are n, and gives how long that took. Where
// the kernel has put receiving off (ksoftirqd) the generator overruns the queue
// in front of the router: then all is sent once more, and that time counts, too.
func (p *packetPath) grow(n int) (took time.Duration, err error) {
	if p.open == n {
		return 0, nil
	}
	want, came := n-p.open, 0
	for range growTries {
		once, received, err := p.openAll(n)
		took += once
		if err != nil {
			return 0, err
		}
		if came = received; came >= want-want/1000 {
			p.open = n
			return took, p.sink.Verify(false, small)
		}
	}
	return 0, fmt.Errorf("open %d sessions: only %d packets have arrived, in each of %d attempts", want, came, growTries)
}

const growTries = 3

// openAll sends a packet of each session that is wanted, and gives how many arrived.
func (p *packetPath) openAll(n int) (took time.Duration, received int, err error) {
	before, err := p.sink.Received(false)
	if err != nil {
		return 0, 0, err
	}
	if took, err = p.traffic.once(p.open, n); err != nil {
		return 0, 0, err
	}
	after, err := p.sink.Received(false)
	return took, int(after - before), err
}

func (m *Measurer) setup(ctx context.Context, s subject, c measurement) (float64, error) {
	p, err := m.fresh(ctx, s)
	if err != nil {
		return 0, err
	}
	took, err := p.grow(c.sessions)
	return float64(c.sessions) / took.Seconds() / 1e3, err
}

func (m *Measurer) rate(ctx context.Context, s subject, c measurement) (float64, error) {
	p, err := m.with(ctx, s, c.sessions)
	if err != nil {
		return 0, err
	}
	if err := p.traffic.draw(c.sessions, c.zipf, m.o.Seed); err != nil {
		return 0, err
	}
	if err := p.traffic.warmUp(c.sessions); err != nil {
		return 0, err
	}
	before, err := p.sink.Received(false)
	if err != nil {
		return 0, err
	}
	took, err := p.traffic.send(time.Duration(m.o.Seconds / 3 * float64(time.Second)))
	if err != nil {
		return 0, err
	}
	after, err := p.sink.Received(false)
	if err != nil {
		return 0, err
	}
	if after == before {
		return 0, errors.New("no packet has arrived")
	}
	rate := float64(after-before) / took.Seconds() / 1e6
	if m.rates[s.name] == nil {
		m.rates[s.name] = map[measurement]float64{}
	}
	m.rates[s.name][c] = rate
	return rate, p.sink.Verify(false, small)
}

// kept is made of the two rates that this round has measured, or measures them.
func (m *Measurer) kept(ctx context.Context, s subject, c measurement) (float64, error) {
	one, many := measurement{kind: rate, sessions: 1}, measurement{kind: rate, sessions: c.sessions, zipf: c.zipf}
	for _, r := range []measurement{one, many} {
		if _, known := m.rates[s.name][r]; known {
			continue
		}
		if _, err := m.rate(ctx, s, r); err != nil {
			return 0, err
		}
	}
	return m.rates[s.name][many] / m.rates[s.name][one], nil
}

// memory of weft: its pinned tables and the resident memory of its daemon. Of
// the kernel: what its allocator has taken since there was no session, and
// the hash table of connections.
func (m *Measurer) memory(ctx context.Context, s subject, c measurement) (float64, error) {
	p, err := m.with(ctx, s, c.sessions)
	if err != nil {
		return 0, err
	}
	var bytes uint64
	if s.kernel {
		now, err := rig.SlabBytes()
		if err != nil {
			return 0, err
		}
		table, err := rig.ConntrackTable()
		if err != nil {
			return 0, err
		}
		bytes = table + max(now, p.slab) - p.slab
	} else if bytes, err = p.WeftMemory(); err != nil {
		return 0, err
	}
	return float64(bytes) / (1 << 20), nil
}
