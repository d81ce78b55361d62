package lns

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"weft/internal/bench/rig"
	"weft/internal/state"
)

// Options of the measurements.
type Options struct {
	Weft    string  // path of the weft program
	Seconds float64 // of payload that one TCP measurement counts; packets take a third
}

// DefaultSeconds is what Options.Seconds is unless somebody says otherwise.
const DefaultSeconds = 1.5

// tcpSeconds is how long iperf3 runs: whole seconds, of which the first half
// second is warm-up.
func tcpSeconds(seconds float64) int { return max(1, int(math.Ceil(seconds+0.5))) }

const warmUp = 20 * time.Millisecond

// roadKey says which cases share a road.
type roadKey struct {
	subject  string
	sessions int
	xdp      bool
}

// Measurer has a road for every server and number of sessions, made when it is
// first needed.
type Measurer struct {
	o     Options
	cases map[string]measurement
	roads map[roadKey]*road
}

// Open prepares to measure.
func Open(ctx context.Context, o Options) (*Measurer, error) {
	if err := rig.Sweep(ctx); err != nil {
		return nil, err
	}
	_, parts := cases()
	return &Measurer{o, parts, map[roadKey]*road{}}, nil
}

// Close takes all roads down.
func (m *Measurer) Close(ctx context.Context) error {
	var errs []error
	for _, r := range m.roads {
		errs = append(errs, r.Close(ctx))
	}
	return errors.Join(errs...)
}

// Measure measures a subject in a case, once.
func (m *Measurer) Measure(ctx context.Context, c, name string) (float64, error) {
	parts, ok := m.cases[c]
	if !ok {
		return 0, fmt.Errorf("no case is called %q", c)
	}
	for _, s := range subjects() {
		if s.name != name {
			continue
		}
		switch parts.kind {
		case setup:
			return m.setup(ctx, s, parts)
		case packets:
			return m.packets(ctx, s, parts)
		}
		r, err := m.road(ctx, s, parts.sessions, false)
		if err != nil {
			return 0, err
		}
		if parts.kind == memory {
			return r.memoryOfSession()
		}
		return r.tcp(ctx, parts, tcpSeconds(m.o.Seconds))
	}
	return 0, fmt.Errorf("no subject is called %q", name)
}

// setup is measured on a road of its own each time.
func (m *Measurer) setup(ctx context.Context, s subject, c measurement) (float64, error) {
	r, err := newRoad(ctx, s, "-set", c.sessions, m.o.Weft, false)
	if err != nil {
		return 0, err
	}
	return r.rate, r.Close(ctx)
}

func (m *Measurer) road(ctx context.Context, s subject, sessions int, xdp bool) (*road, error) {
	key := roadKey{s.name, sessions, xdp && s.hooks}
	if r, ok := m.roads[key]; ok {
		return r, nil
	}
	suffix := "-tc"
	if key.xdp {
		suffix = "-xdp"
	}
	r, err := newRoad(ctx, s, suffix, sessions, m.o.Weft, key.xdp)
	if err == nil {
		m.roads[key] = r
	}
	return r, err
}

// newRoad makes a path, starts a server on it and sets up its sessions.
func newRoad(ctx context.Context, s subject, suffix string, sessions int, weft string, xdp bool) (*road, error) {
	path, err := rig.NewPath(rig.PathOptions{
		Name: fmt.Sprintf("%s%d%s", short(s.name), sessions, suffix), Lan: left, Wan: right, Forward: s.forward,
		HostGRO: xdp, RouterGRO: xdp || !s.hooks, NoChecksum: xdp,
	})
	if err != nil {
		return nil, err
	}
	r := &road{Path: path, subject: s, weft: weft, traffic: map[measurement]*traffic{}}
	err = s.start(ctx, r, xdp)
	switch {
	case err != nil:
	case s.name == "weft-tables":
		if r.tables, r.sessions, err = newTables(path, sessions, xdp); err == nil {
			r.closers = append(r.closers, r.tables.Close)
		}
	default:
		err = r.bringUp(ctx, sessions)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s with %d sessions: %w", s.name, sessions, err), r.Close(context.WithoutCancel(ctx)))
	}
	return r, nil
}

func short(name string) string { return strings.ReplaceAll(name, "weft-", "w-") }

// Close takes the road down.
func (r *road) Close(ctx context.Context) error {
	var errs []error
	for _, t := range r.traffic {
		errs = append(errs, t.Close())
	}
	if r.end != nil {
		errs = append(errs, r.end.Close())
	}
	if r.lac != nil {
		errs = append(errs, r.lac.Close())
	}
	for _, f := range r.closers {
		errs = append(errs, f())
	}
	return errors.Join(append(errs, r.Path.Close(ctx))...)
}

func (m *Measurer) packets(ctx context.Context, s subject, c measurement) (float64, error) {
	r, err := m.road(ctx, s, c.sessions, true)
	if err != nil {
		return 0, err
	}
	t, ok := r.traffic[c]
	if !ok {
		if t, err = newTraffic(r.Path, c, r.sessions); err != nil {
			return 0, err
		}
		r.traffic[c] = t
		// neighbours are known before the first packet counts
		if err := r.Ping(ctx, r.Left, here.Addr()); err != nil {
			return 0, err
		}
		if err := r.Ping(ctx, r.Right, right.Router[1].Addr()); err != nil {
			return 0, err
		}
	}
	if _, _, err := t.burst(warmUp); err != nil {
		return 0, err
	}
	came, took, err := t.burst(time.Duration(m.o.Seconds / 3 * float64(time.Second)))
	return float64(came) / took.Seconds() / 1e6, err
}

// serveTCP makes the first session that of a subscriber with a stack.
func (r *road) serveTCP(ctx context.Context) (err error) {
	if r.serving {
		return nil
	}
	if err := rig.AsOnAWire(r.Left); err != nil {
		return err
	}
	if r.end, err = newEnd(r.Left); err != nil {
		return err
	}
	s := r.sessions[0]
	err = r.end.serve(state.AccessTunnel{Local: s.tunnel.id, Remote: s.tunnel.peer, Here: peer, Peer: here},
		state.AccessSession{Local: s.id, Remote: s.peer, IPv4: netip.AddrFrom4(s.addr)}, right.Host[1].Addr())
	if err != nil {
		return err
	}
	if err := r.Ping(ctx, r.Left, right.Host[1].Addr()); err != nil {
		return err
	}
	r.serving = true
	return errors.Join(r.ServeTCP(ctx, r.Left), r.ServeTCP(ctx, r.Right))
}

// tcp gives goodput, or for it the time of all CPUs.
func (r *road) tcp(ctx context.Context, c measurement, seconds int) (float64, error) {
	if err := r.serveTCP(ctx); err != nil {
		return 0, err
	}
	from, to := r.Left, right.Host[1].Addr()
	if c.down {
		from, to = r.Right, netip.AddrFrom4(r.sessions[0].addr)
	}
	before, err := busy()
	if err != nil {
		return 0, err
	}
	rate, err := r.TCP(ctx, from, to, 1, seconds)
	if err != nil || c.kind == tcp {
		return rate, err
	}
	after, err := busy()
	return (after - before).Seconds() * 1000 / (rate * float64(seconds)), err
}

// busy is how long all CPUs have worked since the machine started (proc(5)).
func busy() (time.Duration, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	var ticks uint64
	for i, f := range strings.Fields(line)[1:] {
		v, err := strconv.ParseUint(f, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read /proc/stat: %w", err)
		}
		if i != 3 && i != 4 && i < 8 { // all but idle and waiting for disks
			ticks += v
		}
	}
	return time.Duration(ticks) * time.Second / 100, nil
}

// memoryOfSession is in KiB.
func (r *road) memoryOfSession() (float64, error) {
	now, err := r.subject.memory(r)
	return float64(now) / float64(len(r.sessions)) / 1024, err
}
