package offload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strings"
	"time"

	"weft/internal/bench/rig"
)

// Options of the measurements.
type Options struct {
	Weft    string // path of the weft program
	Seconds float64
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
	firstOfAll = netip.MustParseAddr("10.1.1.0") // of the hosts that packets come from
)

const packetLength = 64

// Measurer has a path for each subject and number of flows, made when it is
// first needed.
type Measurer struct {
	o       Options
	paths   map[string]*path
	restore func() error // what the kernel may track; nil: it was not touched
}

type path struct {
	*rig.Path
	generator *rig.Generator
	sink      *rig.Sink
	learnt    time.Duration
	serves    bool // TCP, on the right
	closers   []func() error
}

// Open prepares to measure.
func Open(ctx context.Context, o Options) (*Measurer, error) {
	return &Measurer{o: o, paths: map[string]*path{}}, rig.Sweep(ctx)
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
	if p.generator != nil {
		errs = append(errs, p.generator.Close())
	}
	for _, f := range p.closers {
		errs = append(errs, f())
	}
	return errors.Join(append(errs, p.Close(ctx))...)
}

// Measure measures a subject in a case, once.
func (m *Measurer) Measure(ctx context.Context, c, subject string) (float64, error) {
	switch {
	case c == "tcp1-nat-1":
		rate, _, err := m.tcp(ctx, subject, 1)
		return rate, err
	case c == "tcp1-nat-1000000":
		rate, _, err := m.tcp(ctx, subject, many)
		return rate, err
	case c == "cpu-nat":
		_, cost, err := m.tcp(ctx, subject, 1)
		return cost, err
	case c == "pps64-drop-1":
		return m.drops(ctx, subject, 1)
	case c == "pps64-drop-1000000":
		return m.drops(ctx, subject, many)
	case strings.HasPrefix(c, "learn"):
		// learnt once for each path: a round of its own takes a path of its own
		p, err := m.fresh(ctx, subject, many)
		if err != nil {
			return 0, err
		}
		return p.learnt.Seconds(), p.close(ctx)
	case strings.HasSuffix(c, "-1"):
		return m.packets(ctx, subject, 1)
	}
	return m.packets(ctx, subject, many)
}

// router makes a path with the subject in its middle.
func (m *Measurer) router(ctx context.Context, name, subject string) (*path, error) {
	r, err := rig.NewPath(rig.PathOptions{
		Name: name, Lan: left, Wan: right, Forward: true, HostGRO: true, RouterGRO: true, NoChecksum: true, Policy: policy,
	})
	if err != nil {
		return nil, err
	}
	p := &path{Path: r}
	_, err = r.Command(ctx, r.Left, "ip", "route", "add", "local", "10.1.1.0/24", "dev", "lo")
	// the answers to the pool's addresses find the router
	_, errRoute := r.Command(ctx, r.Right, "ip", "route", "add", "198.51.101.0/24", "via", right.Router[1].Addr().String())
	err = errors.Join(err, errRoute, r.Sysctls("net/netfilter/nf_conntrack_udp_timeout=600", "net/netfilter/nf_conntrack_udp_timeout_stream=600"))
	if hook, is := strings.CutPrefix(subject, "weft-"); is && err == nil {
		err = r.RunWeft(ctx, m.o.Weft, fmt.Sprintf(`
[router]
forwarding = true
[interface.lan]
hook = %[1]q
[interface.wan]
hook = %[1]q
[offload]
interfaces = ["lan", "wan"]
minimum_packets = 1
idle_timeout = "1h"
table_size = %[2]d
`, hook, 2*many+many/8))
	}
	if err == nil {
		err = r.Ping(ctx, r.Left, server)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", subject, err), p.close(context.WithoutCancel(ctx)))
	}
	return p, nil
}

// tcp gives Gbit/s of one flow among so many, and seconds of work for each Gbit.
func (m *Measurer) tcp(ctx context.Context, subject string, flows int) (rate, cost float64, err error) {
	name := subject + "-tcp"
	if flows > 1 {
		name = fmt.Sprintf("%s-%d", subject, flows) // the path of the packets
	}
	p := m.paths[name]
	if p == nil {
		if flows > 1 {
			p, err = m.fresh(ctx, subject, flows)
		} else {
			p, err = m.router(ctx, name, subject)
		}
		if err != nil {
			return 0, 0, err
		}
		m.paths[name] = p
	}
	if !p.serves {
		if err := p.ServeTCP(ctx, p.Right); err != nil {
			return 0, 0, err
		}
		p.serves = true
	}
	before, err := rig.BusySeconds()
	if err != nil {
		return 0, 0, err
	}
	seconds := int(math.Ceil(m.o.Seconds + 0.5))
	if rate, err = p.TCP(ctx, p.Left, server, 1, seconds); err != nil {
		return 0, 0, err
	}
	after, err := rig.BusySeconds()
	return rate, (after - before) / (rate * float64(seconds)), err
}

// fresh makes a path whose flows are known to whoever forwards them.
func (m *Measurer) fresh(ctx context.Context, subject string, flows int) (*path, error) {
	if flows > 1 && m.restore == nil {
		restore, err := rig.RaiseConntrack(flows + flows/8)
		if err != nil {
			return nil, err
		}
		m.restore = restore
	}
	p, err := m.router(ctx, fmt.Sprintf("%s-%d", subject, flows), subject)
	if err != nil {
		return nil, err
	}
	if err := p.learn(ctx, m.o.Weft, subject, flows); err != nil {
		return nil, errors.Join(fmt.Errorf("flows of %s: %w", subject, err), p.close(context.WithoutCancel(ctx)))
	}
	return p, nil
}

// patience is how long flows may take to be learnt.
const patience = 3 * time.Minute

// learn makes the connections, with answers to their packets, and waits until
// they are offloaded.
func (p *path) learn(ctx context.Context, weft, subject string, flows int) error {
	from, err := rig.MAC(p.Left, "eth0")
	if err != nil {
		return err
	}
	to, err := rig.MAC(p.Router, "lan")
	if err != nil {
		return err
	}
	d := rig.Datagrams{FromMAC: from, ToMAC: to, From: firstOfAll, To: server, Length: packetLength, Flows: 1, Hosts: 1}
	if flows > 1 {
		d.Flows, d.Hosts = many/manyHosts, manyHosts
	}
	if p.generator, err = rig.NewGenerator(p.Left, d); err != nil {
		return err
	}
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
		if _, err = p.generator.Chunks(flows); err != nil {
			break
		}
		var done bool
		if done, err = p.known(ctx, weft, subject, flows); done || err != nil {
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
	p.sink, err = p.NewSink(p.Right)
	return err
}

// known tells whether enough flows are offloaded. Those of the kernel are known
// once each has had an answer.
func (p *path) known(ctx context.Context, weft, subject string, flows int) (bool, error) {
	if subject == "kernel" {
		return true, nil
	}
	out, err := p.Command(ctx, p.Router, weft, "show", "offload", "--json")
	if err != nil {
		return false, err
	}
	var status struct{ Connections int }
	err = json.Unmarshal(out, &status)
	return status.Connections*100 >= flows*97, err
}

func (m *Measurer) packets(ctx context.Context, subject string, flows int) (float64, error) {
	name := fmt.Sprintf("%s-%d", subject, flows)
	p := m.paths[name]
	if p == nil {
		var err error
		if p, err = m.fresh(ctx, subject, flows); err != nil {
			return 0, err
		}
		m.paths[name] = p
	}
	for _, atLeast := range []time.Duration{50 * time.Millisecond, time.Duration(m.o.Seconds / 2 * float64(time.Second))} {
		before, err := p.sink.Arrived(false)
		if err != nil {
			return 0, err
		}
		took, err := p.generator.Run(atLeast)
		if err != nil {
			return 0, err
		}
		after, err := p.sink.Arrived(false)
		if err != nil {
			return 0, err
		}
		if after == before {
			return 0, errors.New("no packet has arrived")
		}
		if atLeast > 50*time.Millisecond {
			return float64(after-before) / took.Seconds() / 1e6, p.sink.Verify(false, packetLength)
		}
	}
	return 0, nil
}
