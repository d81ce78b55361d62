package offload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"weft/internal/bench/rig"
)

// crowds are the cases that need a path of a million flows. Connection tracking has
// one table for all network namespaces: with several such paths, the kernel would
// look up each packet among the connections of all, and those of a waiting path
// would expire. So one exists at a time, and all cases of a subject are measured on
// it.
var crowds = []string{"pps64-six-1000000", "pps64-nat-1000000", "pps64-nat-mixed", "growth-nat", "learn-1000000", "tcp1-nat-1000000"}

// figure is what a subject gave in a case.
type figure struct{ c, subject string }

// asked reports whether a case of a subject is measured at all.
func (m *Measurer) asked(c, subject string) bool {
	return fits(c, subject) && (len(m.o.Cases) == 0 || slices.Contains(m.o.Cases, c))
}

// crowded returns a figure of a million flows: each round has a path of its own,
// and one for each family.
func (m *Measurer) crowded(ctx context.Context, c, subject string) (float64, error) {
	key := figure{c, subject}
	if _, is := m.kept[key]; !is {
		if err := m.crowd(ctx, c, subject); err != nil {
			return 0, err
		}
	}
	v := m.kept[key]
	delete(m.kept, key)
	return v, nil
}

// crowd makes a path of a million flows, and keeps a figure of a case and of all
// others that are asked for.
func (m *Measurer) crowd(ctx context.Context, c, subject string) (err error) {
	if err := rig.Calm(ctx); err != nil { // the one before is taken away in the background
		return err
	}
	what := traffic{many, strings.HasPrefix(c, "pps64-six-")}
	p, err := m.fresh(ctx, what.name(subject), subject, what)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close(context.WithoutCancel(ctx))) }()
	for _, each := range crowds {
		if each != c && (!m.asked(each, subject) || strings.HasPrefix(each, "pps64-six-") != what.ipv6) {
			continue
		}
		v, err := m.inCrowd(ctx, p, each, subject)
		if err != nil {
			return fmt.Errorf("%s: %w", each, err)
		}
		m.kept[figure{each, subject}] = v
	}
	return nil
}

func (m *Measurer) inCrowd(ctx context.Context, p *path, c, subject string) (float64, error) {
	switch c {
	case "pps64-nat-mixed":
		return m.mixed(p)
	case "growth-nat":
		return m.growth(ctx, p, subject)
	case "learn-1000000":
		return p.learnt.Seconds(), nil
	case "tcp1-nat-1000000":
		if err := p.ServeTCP(ctx, p.Right); err != nil {
			return 0, err
		}
		return p.TCP(ctx, p.Left, server, 1, m.tcpSeconds())
	}
	return m.through(p, p.generator, packetLength)
}

// growth is the packet rate with a million flows divided by that with one.
func (m *Measurer) growth(ctx context.Context, p *path, subject string) (float64, error) {
	one, err := m.packets(ctx, subject, traffic{flows: 1})
	if err != nil {
		return 0, err
	}
	all, err := m.through(p, p.generator, packetLength)
	return all / one, err
}

// mixed is the rate of a million flows whose packets come in another order than that
// in which the flows were learnt.
func (m *Measurer) mixed(p *path) (rate float64, err error) {
	d := p.datagrams
	d.Mixed = true
	g, err := p.heeding(d, nil)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	return m.through(p, g, packetLength)
}
