package offload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"weft/internal/bench/rig"
	"weft/internal/lab/netspace"
)

// Options of the measurements.
type Options struct {
	Weft    string // path of the weft program
	Seconds float64
	Table   int      // flows that weft has room for; 0: as many as the case needs
	Cases   []string // that are measured; none: all
	// Smoke is for a test beside which others run: the machine need not be calm,
	// and packets may be lost.
	Smoke bool
}

var (
	left = rig.Ends{
		Host:   [2]netip.Prefix{netip.MustParsePrefix("2001:db8:1::2/64"), netip.MustParsePrefix("10.1.0.2/16")},
		Router: [2]netip.Prefix{netip.MustParsePrefix("2001:db8:1::1/64"), netip.MustParsePrefix("10.1.0.1/16")},
	}
	right = rig.Ends{
		Host:   [2]netip.Prefix{netip.MustParsePrefix("2001:db8:2::2/64"), netip.MustParsePrefix("198.51.100.2/24")},
		Router: [2]netip.Prefix{netip.MustParsePrefix("2001:db8:2::1/64"), netip.MustParsePrefix("198.51.100.1/24")},
	}
	server     = right.Host[1].Addr()
	server6    = right.Host[0].Addr()
	behind     = netip.MustParsePrefix("10.3.0.0/24") // the left host, in cpu-nat
	firstOfAll = netip.MustParseAddr("10.1.1.0")      // of the hosts that packets come from
	firstOfSix = netip.MustParseAddr("2001:db8:3::1:0")
)

const (
	packetLength = 64
	largeLength  = 1500
)

// Measurer has a path for each subject and number of flows, made when it is
// first needed; those of a million flows are gone when their cases are measured.
type Measurer struct {
	o       Options
	paths   map[string]*path
	kept    map[figure]float64 // of a path that is gone, until they are asked for
	restore func() error       // what the kernel may track; nil: it was not touched
}

type path struct {
	*rig.Path
	generator *rig.Generator
	datagrams rig.Datagrams
	large     *rig.Generator // of the same flow
	sink      *rig.Sink
	learnt    time.Duration
	threads   *rig.Receivers  // in which the router receives, where it does so in threads
	behind    *netspace.Space // the left host
	closers   []func() error
}

// Open prepares to measure.
func Open(ctx context.Context, o Options) (*Measurer, error) {
	return &Measurer{o: o, paths: map[string]*path{}, kept: map[figure]float64{}}, rig.Sweep(ctx)
}

// Close takes all paths down.
func (m *Measurer) Close(ctx context.Context) error {
	var errs []error
	for _, p := range m.paths {
		errs = append(errs, p.close(ctx))
	}
	if m.restore != nil {
		errs = append(errs, m.restore())
	}
	return errors.Join(errs...)
}

func (p *path) close(ctx context.Context) error {
	var errs []error
	for _, g := range []*rig.Generator{p.generator, p.large} {
		if g != nil {
			errs = append(errs, g.Close())
		}
	}
	for _, f := range p.closers {
		errs = append(errs, f())
	}
	return errors.Join(append(errs, p.Close(ctx))...)
}

// Measure measures a subject in a case, once.
func (m *Measurer) Measure(ctx context.Context, c, subject string) (float64, error) {
	switch c {
	case instructionsOne:
		return instructions(m.packets(ctx, subject, traffic{flows: 1}))
	case instructionsSome:
		return instructions(m.packets(ctx, subject, traffic{flows: some}))
	case instructionsDrop:
		return instructions(m.drops(ctx, "pps64-drop-1", subject))
	case "pps64-six-1000000", "pps64-nat-1000000", "pps64-nat-mixed", "growth-nat", "learn-1000000", "tcp1-nat-1000000":
		return m.crowded(ctx, c, subject)
	case "tcp1-nat-1":
		return m.goodput(ctx, subject)
	case "cpu-nat":
		router, _, err := m.cost(ctx, subject)
		return router, err
	case "cpu-nat-all":
		_, all, err := m.cost(ctx, subject)
		return all, err
	case "cpu-nat-200":
		return m.pacedCost(ctx, subject, 200, 5e6)
	case "cpu-nat-paced":
		return m.pacedCost(ctx, subject, 1, 200e6)
	case "cpu-nat-udp":
		return m.costOfDatagrams(ctx, subject)
	case "pps64-drop-1", "pps64-drop-1000000", "pps64-drop-listed", "pps64-drop-learnt":
		return m.drops(ctx, c, subject)
	case "pps64-nat-1":
		return m.packets(ctx, subject, traffic{flows: 1})
	case "pps64-six-1":
		return m.packets(ctx, subject, traffic{1, true})
	}
	return 0, fmt.Errorf("no case is called %q", c)
}

// traffic is what the packets of a path are.
type traffic struct {
	flows int
	ipv6  bool // and no NAT
}

func (t traffic) name(subject string) string {
	if t.ipv6 {
		subject += "-six"
	}
	return fmt.Sprintf("%s-%d", subject, t.flows)
}

// fresh makes a path whose flows are known to its forwarder.
func (m *Measurer) fresh(ctx context.Context, name, subject string, what traffic) (*path, error) {
	if what.flows == many && m.restore == nil {
		restore, err := rig.RaiseConntrack(many + many/8)
		if err != nil {
			return nil, err
		}
		m.restore = restore
	}
	p, err := m.router(ctx, name, subject, false, roomForMany)
	if err != nil {
		return nil, err
	}
	if err := p.learn(ctx, m.o.Weft, subject, what); err != nil {
		return nil, errors.Join(fmt.Errorf("flows of %s: %w", subject, err), p.close(context.WithoutCancel(ctx)))
	}
	return p, nil
}

// patience is how long flows may take to be learnt.
const patience = 6 * time.Minute

// learn makes the connections, with answers to their packets, and waits until
// they are offloaded.
func (p *path) learn(ctx context.Context, weft, subject string, what traffic) error {
	from, err := rig.MAC(p.Left, "eth0")
	if err != nil {
		return err
	}
	to, err := rig.MAC(p.Router, "lan")
	if err != nil {
		return err
	}
	d := rig.Datagrams{FromMAC: from, ToMAC: to, From: firstOfAll, To: server, Length: packetLength, Flows: 1, Hosts: 1}
	if what.ipv6 {
		d.From, d.To = firstOfSix, server6
	}
	switch what.flows {
	case some:
		d.Flows = some
	case many:
		d.Flows, d.Hosts = many/manyHosts, manyHosts
	}
	if p.generator, err = rig.NewGenerator(p.Left, d); err != nil {
		return err
	}
	p.datagrams = d
	near, err := p.Answer(p.Left, true)
	if err != nil {
		return err
	}
	p.closers = append(p.closers, near)
	stop, err := p.Answer(p.Right, false)
	if err != nil {
		return err
	}
	start := time.Now()
	for time.Since(start) < patience {
		if _, err = p.generator.Chunks(what.flows); err != nil {
			break
		}
		var done bool
		if done, err = p.known(ctx, weft, subject, what.flows); done || err != nil {
			break
		}
	}
	p.learnt = time.Since(start)
	if err == nil && p.learnt >= patience {
		err = errors.New("they are not offloaded in time")
	}
	if err := errors.Join(err, stop()); err != nil {
		return err
	}
	if p.sink, err = p.NewSink(p.Right); err != nil {
		return err
	}
	if p.generator, err = p.heeding(d, p.generator); err != nil {
		return err
	}
	return p.receive(ctx)
}

// heeding returns a generator that limits the packets in flight, in place of
// another.
func (p *path) heeding(d rig.Datagrams, instead *rig.Generator) (*rig.Generator, error) {
	g, err := rig.NewHeedingGenerator(p.Left, d, p.sink)
	if instead != nil {
		err = errors.Join(err, instead.Close())
	}
	return g, err
}

// receive gives the router a CPU of its own, beside the generator's. The far end
// receives the router's packets there too: to wake another CPU for them would cost
// more than all the rest, and most where packets go one by one.
func (p *path) receive(ctx context.Context) error {
	first, _, err := rig.CPUs()
	if err == nil {
		p.threads, err = p.Receive(ctx, p.Router, first, "lan")
	}
	return err
}

// rate sends packets for that long, and returns the number of million packets that
// the router processes in a second of its work; count counts them.
func (p *path) rate(g *rig.Generator, atLeast time.Duration, count func() (uint64, error)) (float64, error) {
	before, err := count()
	if err != nil {
		return 0, err
	}
	worked, err := p.threads.Busy()
	if err != nil {
		return 0, err
	}
	if _, err := g.Run(atLeast); err != nil {
		return 0, err
	}
	after, err := count()
	if err != nil {
		return 0, err
	}
	now, err := p.threads.Busy()
	if after == before {
		err = errors.Join(err, errors.New("no packet has arrived, or was refused"))
	}
	return float64(after-before) / (now - worked).Seconds() / 1e6, err
}

// known reports whether enough flows are offloaded. Those of the kernel are known
// once each has had an answer.
func (p *path) known(ctx context.Context, weft, subject string, flows int) (bool, error) {
	if !strings.HasPrefix(subject, "weft-") {
		return true, nil
	}
	n, err := p.offloaded(ctx, weft)
	return n*100 >= flows*97, err
}

// offloaded is how many connections weft forwards past the stack.
func (p *path) offloaded(ctx context.Context, weft string) (int, error) {
	out, err := p.Command(ctx, p.Router, weft, "show", "offload", "--json")
	if err != nil {
		return 0, err
	}
	var status struct{ Connections int }
	err = json.Unmarshal(out, &status)
	return status.Connections, err
}

// flows returns the path of a subject that knows the flows of its traffic.
func (m *Measurer) flows(ctx context.Context, subject string, what traffic) (*path, error) {
	name := what.name(subject)
	if p := m.paths[name]; p != nil {
		return p, nil
	}
	p, err := m.fresh(ctx, name, subject, what)
	if err != nil {
		return nil, err
	}
	m.paths[name] = p
	return p, nil
}

func (m *Measurer) packets(ctx context.Context, subject string, what traffic) (float64, error) {
	p, err := m.flows(ctx, subject, what)
	if err != nil {
		return 0, err
	}
	return m.through(p, p.generator, packetLength)
}

// lostMost is the number of packets of 1000 that may be lost: RFC 2544 26.1 allows
// none, but other load on the machine can stop a router for longer than a queue
// lasts.
const lostMost = 1

// through is the rate at which packets of a length come through.
func (m *Measurer) through(p *path, g *rig.Generator, length int) (float64, error) {
	ipv6 := p.datagrams.From.Is6()
	received := func() (uint64, error) { return p.sink.Received(ipv6) }
	if _, err := p.rate(g, warmUp, received); err != nil {
		return 0, err
	}
	lost, errLost := g.Lost()
	came, errCame := received()
	rate, err := p.rate(g, m.packetTime(), received)
	if err = errors.Join(errLost, errCame, err, p.sink.Verify(ipv6, length)); err != nil {
		return 0, err
	}
	lostNow, errLost := g.Lost()
	cameNow, errCame := received()
	lost, came = lostNow-lost, cameNow-came
	if lost*1000 > came*lostMost && !m.o.Smoke {
		err = fmt.Errorf("%d packets were lost while %d came through", lost, came)
	}
	return rate, errors.Join(errLost, errCame, err)
}

// costOfDatagrams returns seconds of the router's work for each Gbit of packets of
// 1500 bytes of one flow.
func (m *Measurer) costOfDatagrams(ctx context.Context, subject string) (float64, error) {
	p, err := m.flows(ctx, subject, traffic{flows: 1})
	if err != nil {
		return 0, err
	}
	if p.large == nil {
		d := p.datagrams
		d.Length = largeLength
		if p.large, err = p.heeding(d, nil); err != nil {
			return 0, err
		}
	}
	rate, err := m.through(p, p.large, largeLength)
	return 1e9 / (rate * 1e6 * 8 * largeLength), err
}

// warmUp comes before what counts.
const warmUp = 50 * time.Millisecond

func (m *Measurer) packetTime() time.Duration {
	return time.Duration(m.o.Seconds / 2 * float64(time.Second))
}
