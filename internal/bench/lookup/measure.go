package lookup

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/gaissmai/bart"

	"weft/fib"
	"weft/fib/internet"
	"weft/internal/bench/rig"
)

// Measurer has every subject's filled tables.
type Measurer struct {
	o         Options
	prefixes  map[int][]netip.Prefix
	p         *programs
	readers   *readers
	weft      map[int]*fib.Table
	bart      *bart.Table[uint32]
	bartSize  uint64
	kernel    *kernelTable
	packets   *forwarding
	grown     map[string]*grown
	withHosts *hosts
	drawn     map[string][]netip.Addr
	rng       *rand.Rand
}

// Open fills the tables of all subjects that will be measured.
func Open(ctx context.Context, o Options, table internet.Table) (m *Measurer, err error) {
	m = &Measurer{
		o:        o,
		prefixes: map[int][]netip.Prefix{4: table.IPv4, 6: table.IPv6},
		weft:     map[int]*fib.Table{},
		drawn:    map[string][]netip.Addr{},
		grown:    map[string]*grown{},
		rng:      rand.New(rand.NewPCG(o.Seed, 2)),
	}
	opened := m // a return of an error sets m to nil
	defer func() {
		if err != nil {
			err = errors.Join(err, opened.Close(context.WithoutCancel(ctx)))
		}
	}()
	device := 1
	say := func(what string) {
		if o.Progress != nil {
			o.Progress(what)
		}
	}
	if o.wants(kernel) || o.wants(weftXDP) || o.wants(xdpForward) {
		if err := rig.Sweep(ctx); err != nil {
			return nil, err
		}
		say("loading the kernel's routing table by ip -batch: a minute")
		m.kernel, err = openKernel(ctx, "fib", routes(table.IPv4, o.Seed), routes(table.IPv6, o.Seed))
		if err != nil {
			return nil, err
		}
		device = m.kernel.lan
	}
	say("building the other tables")
	if m.p, err = load(addresses, device, false); err != nil {
		return nil, err
	}
	if o.wants(weft) {
		if m.weft, err = m.p.build(m.prefixes, o.Seed); err != nil {
			return nil, err
		}
		if m.readers, err = m.openReaders(); err != nil {
			return nil, err
		}
	}
	if o.wants(lpmTrie) {
		for _, f := range families {
			if err := fillTrie(m.p.trie(f), m.prefixes[f], o.Seed); err != nil {
				return nil, err
			}
		}
	}
	if m.kernel != nil {
		if m.packets, err = openForwarding(ctx, m.kernel, m.prefixes, o); err != nil {
			return nil, err
		}
	}
	if o.wants(bartGo) {
		m.bart, m.bartSize = buildBart(m.prefixes, o.Seed)
	}
	return m, nil
}

// Close releases everything.
func (m *Measurer) Close(ctx context.Context) error {
	var errs []error
	for _, g := range m.grown {
		errs = append(errs, g.p.Close())
	}
	if m.withHosts != nil {
		errs = append(errs, m.withHosts.p.Close())
	}
	if m.readers != nil {
		errs = append(errs, m.readers.p.Close())
	}
	if m.p != nil {
		errs = append(errs, m.p.Close())
	}
	if m.packets != nil {
		errs = append(errs, m.packets.Close())
	}
	if m.kernel != nil {
		errs = append(errs, m.kernel.Close(ctx))
	}
	return errors.Join(errs...)
}

// build fills weft's tables in the arrays.
func (p *programs) build(prefixes map[int][]netip.Prefix, seed uint64) (map[int]*fib.Table, error) {
	make := map[int]func([]uint32) (*fib.Table, error){4: fib.New4, 6: fib.New6}
	tables := map[int]*fib.Table{}
	for _, f := range families {
		clear(p.fib[f].Words)
		t, err := make[f](p.fib[f].Words)
		if err != nil {
			return nil, err
		}
		if err := t.Build(routes(prefixes[f], seed)); err != nil {
			return nil, err
		}
		tables[f] = t
	}
	return tables, nil
}

// Measure measures a subject in a case, once.
func (m *Measurer) Measure(_ context.Context, c, subject string) (float64, error) {
	switch c {
	case memory:
		return m.memory(subject)
	case build:
		return m.build(subject)
	case update:
		return m.update(subject)
	case worst:
		return m.worst()
	case hostsMemory:
		h, err := m.hosts()
		if err != nil {
			return 0, err
		}
		return h.added, nil
	case pps64:
		return m.packets.packets(subject, 4)
	case pps64v6:
		return m.packets.packets(subject, 6)
	}
	for _, f := range families {
		for _, s := range []spread{uniform, inTable, zipf} {
			if lookupCase(f, s) == c {
				return m.lookups(subject, f, s)
			}
		}
	}
	for _, size := range sizes {
		switch c {
		case growthPrefix + size.name:
			return m.lookupsAt(subject, size)
		case bytesPrefix + size.name:
			return m.bytesAt(subject, size)
		}
	}
	return 0, fmt.Errorf("no case is called %q", c)
}

// lookups returns ns per lookup.
func (m *Measurer) lookups(subject string, family int, s spread) (float64, error) {
	name := lookupCase(family, s)
	addrs, ok := m.drawn[name]
	if !ok {
		addrs = draw(m.rng, m.prefixes[family], s)
		m.drawn[name] = addrs
	}
	if subject == bartGo {
		return lookupsInGo(m.bart, addrs), nil
	}
	p := m.p
	if subject == weftHosts {
		h, err := m.hosts()
		if err != nil {
			return 0, err
		}
		p, subject = h.p, weft
	}
	return m.timed(p, subject, family, addrs)
}

// timed returns ns per lookup of the programs' tables.
func (m *Measurer) timed(p *programs, subject string, family int, addrs []netip.Addr) (float64, error) {
	p.aim(family, addrs)
	var ns uint64
	err := m.inRouter(func() (err error) {
		ns, err = p.run(subject, family)
		return err
	})
	return float64(ns) / float64(len(addrs)), err
}

// inRouter runs f in the namespace with the kernel's routes, if there are any.
func (m *Measurer) inRouter(f func() error) error {
	if m.kernel == nil {
		return f()
	}
	return m.kernel.Router.Do(f)
}

func lookupsInGo(t *bart.Table[uint32], addrs []netip.Addr) float64 {
	start := time.Now()
	for _, a := range addrs {
		t.Lookup(a)
	}
	return float64(time.Since(start).Nanoseconds()) / float64(len(addrs))
}

func (m *Measurer) memory(subject string) (float64, error) {
	switch subject {
	case weft:
		return float64(m.weft[4].Stats().Bytes() + m.weft[6].Stats().Bytes()), nil
	case kernel:
		return float64(m.kernel.bytes), nil
	case bartGo:
		return float64(m.bartSize), nil
	}
	total := uint64(0)
	for _, f := range families {
		bytes, err := m.p.trieBytes(f)
		if err != nil {
			return 0, err
		}
		total += bytes
	}
	return float64(total), nil
}

func (p *programs) trieBytes(family int) (uint64, error) {
	info, err := p.trie(family).Info()
	if err != nil {
		return 0, fmt.Errorf("ask for the memory of the LPM trie: %w", err)
	}
	bytes, ok := info.Memlock()
	if !ok {
		return 0, errors.New("the kernel does not tell the memory of the LPM trie")
	}
	return bytes, nil
}

// build returns seconds. Every table is built again and discarded, except for the
// kernel's, whose loading is timed once.
func (m *Measurer) build(subject string) (float64, error) {
	if subject == kernel {
		return m.kernel.loaded.Seconds(), nil
	}
	if subject == bartGo {
		start := time.Now()
		buildBart(m.prefixes, m.o.Seed)
		return time.Since(start).Seconds(), nil
	}
	p, err := load(1, 1, false)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	if subject == weft {
		_, err = p.build(m.prefixes, m.o.Seed)
	} else {
		for _, f := range families {
			err = errors.Join(err, fillTrie(p.trie(f), m.prefixes[f], m.o.Seed))
		}
	}
	took := time.Since(start).Seconds()
	return took, errors.Join(err, p.Close())
}

func familyOf(p netip.Prefix) int {
	if p.Addr().Is4() {
		return 4
	}
	return 6
}
