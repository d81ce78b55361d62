package offload

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"weft/internal/bench/rig"
)

// A household's line is slower than its router: many connections at once, each at
// its own rate, whose packets arrive mixed. GRO then has few packets of one
// connection at a time, and merges few.

// The router's CPU is occupied for a part of each millisecond. Otherwise the
// receiving thread would sleep after each packet or two, and be woken by the next:
// in a virtual machine that takes ten times as long as forwarding them.
const (
	turn      = time.Millisecond
	elsewhere = 7 * turn / 10
)

// pacedWarmUp comes before what counts: connections that have just begun send
// in bursts.
const pacedWarmUp = time.Second

// throughStack bounds how many of 100 segments may cross the router's stack of
// connections that are said to be offloaded.
const throughStack = 1

// pacedCost returns seconds of the router's work for each Gbit that arrives of so
// many TCP flows, each of which sends so many bits a second.
func (m *Measurer) pacedCost(ctx context.Context, subject string, flows, rate int) (perGbit float64, err error) {
	p, err := m.hostsApart(ctx, subject+"-paced", subject)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, p.close(context.WithoutCancel(ctx))) }()
	cpu, _, err := rig.CPUs()
	if err != nil {
		return 0, err
	}
	stop, err := rig.Occupy(cpu, elsewhere, turn)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	t, err := p.Pace(ctx, p.behind, p.Right, server, flows, rate)
	if err != nil {
		return 0, err
	}
	if err := p.untilOffloaded(ctx, m.o.Weft, subject, flows); err != nil {
		return 0, err
	}
	if err := pause(ctx, pacedWarmUp); err != nil {
		return 0, err
	}
	before, err := p.progress(t)
	if err != nil {
		return 0, err
	}
	if err := pause(ctx, time.Duration(m.tcpSeconds())*time.Second); err != nil {
		return 0, err
	}
	after, err := p.progress(t)
	if err != nil {
		return 0, err
	}
	if before.flows != flows || after.flows != flows {
		return 0, fmt.Errorf("%d of %d connections were left", min(before.flows, after.flows), flows)
	}
	received, segments, crossed := after.bytes-before.bytes, after.segments-before.segments, after.crossed-before.crossed
	if subject != "kernel" && crossed*100 > segments*throughStack {
		return 0, fmt.Errorf("%d of %d packets went through the router's stack, though their connections are offloaded", crossed, segments)
	}
	return (after.worked - before.worked).Seconds() / (float64(received) * 8 / 1e9), nil
}

// untilOffloaded waits until weft forwards all connections past the stack.
func (p *path) untilOffloaded(ctx context.Context, weft, subject string, flows int) error {
	if !strings.HasPrefix(subject, "weft-") {
		return nil
	}
	n := 0
	for start := time.Now(); time.Since(start) < offloadPatience; {
		var err error
		if n, err = p.offloaded(ctx, weft); n >= flows || err != nil {
			return err
		}
		if err := pause(ctx, offloadLook); err != nil {
			return err
		}
	}
	return fmt.Errorf("weft has offloaded %d of %d connections in %s", n, flows, offloadPatience)
}

const (
	offloadPatience = 30 * time.Second
	offloadLook     = 100 * time.Millisecond
)

// progress is how far paced connections and the router are.
type progress struct {
	flows    int
	bytes    uint64 // of payload that have arrived
	segments uint64 // that came to the router from the left
	crossed  uint64 // packets that its stack has forwarded
	worked   time.Duration
}

func (p *path) progress(t *rig.Paced) (now progress, err error) {
	// what is divided stands together
	if now.worked, err = p.worked(); err != nil {
		return now, err
	}
	if now.flows, now.bytes, err = t.Received(); err != nil {
		return now, err
	}
	if now.segments, err = p.ReceivedAt("lan"); err != nil {
		return now, err
	}
	now.crossed, err = p.Forwarded()
	return now, err
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
