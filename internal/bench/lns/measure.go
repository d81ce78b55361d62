package lns

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"weft/internal/bench"
	"weft/internal/bench/rig"
)

// Options of the measurements.
type Options struct {
	Weft     string       // path of the weft program
	Seconds  float64      // of payload that one TCP measurement counts; packets take a third
	Sessions int          // there are never more; 0: 30000
	Progress func(string) // called before steps that take long, other than measurements; may be nil
}

const (
	warmUp = 20 * time.Millisecond

	keptBursts = 12
	keptBurst  = 60 * time.Millisecond
)

// topologyKey identifies the cases that share a topology.
type topologyKey struct {
	subject  string
	sessions int
	xdp      bool
	switched bool // sessions are sent on to another server
}

// Measurer has a topology for every server, made when it is first needed: one with a
// single session, and one with the current number of sessions.
type Measurer struct {
	o          Options
	cases      map[string]measurement
	topologies map[topologyKey]*topology
	ran        map[tcpKey]tcpResult
}

// tcpKey identifies the cases of one measurement.
type tcpKey struct {
	subject string
	down    bool
	count   int
}

// tcpResult is the result of one run of iperf3, kept until each case has used it.
type tcpResult struct {
	rate, cpu float64
	notified  map[kind]bool
}

// Open prepares to measure.
func Open(ctx context.Context, o Options) (*Measurer, error) {
	if err := rig.Sweep(ctx); err != nil {
		return nil, err
	}
	o.Sessions = cmp.Or(o.Sessions, most)
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	_, parts := cases()
	for name, c := range parts {
		c.sessions = min(c.sessions, o.Sessions)
		parts[name] = c
	}
	return &Measurer{o, parts, map[topologyKey]*topology{}, map[tcpKey]tcpResult{}}, nil
}

// Close removes all topologies.
func (m *Measurer) Close(ctx context.Context) error {
	return m.drop(ctx, func(topologyKey) bool { return true })
}

// drop removes some topologies.
func (m *Measurer) drop(ctx context.Context, which func(topologyKey) bool) error {
	var errs []error
	for key, r := range m.topologies {
		if which(key) {
			delete(m.topologies, key)
			errs = append(errs, r.Close(ctx))
		}
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
			setup: m.setup, packets: m.packets, kept: m.kept, memory: m.memory, tcp: m.tcp, cpu: m.tcp,
		},
	}
}

// setup is measured with a server that has just been started. The next cases with
// that many sessions use them.
func (m *Measurer) setup(ctx context.Context, s subject, c measurement) (float64, error) {
	// a round is over, or the next number of sessions begins; the measured server
	// starts again
	old := func(k topologyKey) bool {
		return k.sessions != 1 && k.sessions != c.sessions || k.sessions == c.sessions && k.subject == s.name
	}
	if err := m.drop(ctx, old); err != nil {
		return 0, err
	}
	if c.sessions == most {
		m.o.Progress("waiting until what was before is gone")
		if err := rig.Calm(ctx); err != nil {
			return 0, err
		}
	}
	r, err := m.topology(ctx, s, c.sessions, true, false)
	if err != nil {
		return 0, err
	}
	return r.rate, nil
}

// road returns the topology of a server with that many sessions. Those with another
// number are removed, except the one with a single session, with which others are
// compared.
func (m *Measurer) topology(ctx context.Context, s subject, sessions int, xdp, switched bool) (*topology, error) {
	key := topologyKey{s.name, sessions, xdp && s.hooks, switched}
	if r, ok := m.topologies[key]; ok {
		return r, nil
	}
	if sessions > 1 {
		if err := m.drop(ctx, func(k topologyKey) bool { return k.sessions != 1 && k.sessions != sessions }); err != nil {
			return nil, err
		}
	}
	if switched { // what ends here was measured
		if err := m.drop(ctx, func(k topologyKey) bool { return k.sessions != 1 && !k.switched && k.subject != "weft-tables" }); err != nil {
			return nil, err
		}
	}
	r, err := newTopology(ctx, s, sessions, m.o, key.xdp, switched)
	if err == nil {
		m.topologies[key] = r
	}
	return r, err
}

// packets is how many million arrive in a second of the server's work.
func (m *Measurer) packets(ctx context.Context, s subject, c measurement) (float64, error) {
	if c.switched {
		return m.forwarded(ctx, s, c)
	}
	r, err := m.topology(ctx, s, c.sessions, true, false)
	if err != nil {
		return 0, err
	}
	return r.packets(ctx, c, time.Duration(m.o.Seconds/3*float64(time.Second)))
}

// kept is a ratio of two rates that are measured in turn: other load on the machine
// affects both alike.
func (m *Measurer) kept(ctx context.Context, s subject, c measurement) (float64, error) {
	var rates [2][]float64
	for range keptBursts {
		for i, n := range []int{1, c.sessions} {
			r, err := m.topology(ctx, s, n, true, false)
			if err != nil {
				return 0, err
			}
			one := measurement{packets, c.down, c.length, n, false}
			v, err := r.packets(ctx, one, keptBurst)
			if err != nil {
				return 0, err
			}
			rates[i] = append(rates[i], v)
		}
	}
	return bench.Median(rates[1]) / bench.Median(rates[0]), nil
}

// memory is that of a server which forwards packets, as it does all day: weft's
// programs at the hook of physical devices.
func (m *Measurer) memory(ctx context.Context, s subject, c measurement) (float64, error) {
	r, err := m.topology(ctx, s, c.sessions, true, false)
	if err != nil {
		return 0, err
	}
	return r.memoryOfSession(ctx)
}

// tcp returns goodput, or the time of all CPUs for it: both come from one run.
func (m *Measurer) tcp(ctx context.Context, s subject, c measurement) (float64, error) {
	key := tcpKey{s.name, c.down, c.sessions}
	result, ok := m.ran[key]
	if !ok || result.notified[c.kind] {
		r, err := m.topology(ctx, s, c.sessions, false, false)
		if err != nil {
			return 0, err
		}
		if result, err = r.tcp(ctx, c.down, bench.TCPSeconds(m.o.Seconds)); err != nil {
			return 0, err
		}
		m.ran[key] = result
	}
	result.notified[c.kind] = true
	if c.kind == cpu {
		return result.cpu, nil
	}
	return result.rate, nil
}

// thousands writes a number as people do.
func thousands(n int) string {
	text := strconv.Itoa(n)
	if n < 1000 {
		return text
	}
	return fmt.Sprintf("%s,%s", thousands(n/1000), text[len(text)-3:])
}
