package lookup

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"weft/fib"
	"weft/internal/datapath"
)

// updateWeft withdraws and announces routes one by one, as a router would:
// grace periods pass in the background, and only a full arena waits for one.
// Meanwhile programs read both tables without a pause.
func (m *Measurer) updateWeft(list []netip.Prefix, back []uint32) error {
	return m.readers.during(func() error { return m.updateOneByOne(list, back) })
}

// readers read weft's tables while they change, and check what they find.
type readers struct {
	p       *programs
	allowed map[int][]map[uint32]bool // by family, for each address
}

// readersCount is how many addresses a run looks up. Runs are short: a grace
// period waits for the one under way.
const readersCount = 256

// openReaders loads the programs. An address may get the next hop of any
// prefix of the table that covers it, or none: prefixes come and go.
func (m *Measurer) openReaders() (r *readers, err error) {
	r = &readers{allowed: map[int][]map[uint32]bool{}}
	if r.p, err = loadOver(m.p, readersCount, 1, true); err != nil {
		return nil, err
	}
	for _, f := range families {
		addrs := draw(m.rng, m.prefixes[f], inTable)[:readersCount]
		r.p.aim(f, addrs)
		for _, a := range addrs {
			allowed := map[uint32]bool{0: true, passing: true}
			for bits := range a.BitLen() + 1 {
				if hop, ok := m.weft[f].Get(netip.PrefixFrom(a, bits)); ok {
					allowed[hop] = true
				}
			}
			r.allowed[f] = append(r.allowed[f], allowed)
		}
	}
	return r, nil
}

// during reads for as long as change runs.
func (r *readers) during(change func() error) error {
	stop := make(chan struct{})
	read := make(chan error, 1)
	go func() { read <- r.until(stop) }()
	err := change()
	close(stop)
	return errors.Join(err, <-read)
}

func (r *readers) until(stop <-chan struct{}) error {
	for {
		for _, f := range families {
			select {
			case <-stop:
				return nil
			default:
			}
			if _, err := r.p.run(weft, f); err != nil {
				return err
			}
			for i, hop := range r.p.answers(readersCount) {
				if !r.allowed[f][i][hop] {
					return fmt.Errorf("while the IPv%d table changed a lookup gave next hop %d, which no prefix over the address has", f, hop)
				}
			}
		}
	}
}

// passing is the next hop of the routes of worst.
const passing = hops + 1

// wide are the prefixes whose coming and going touches the most of a table.
var wide = [...]netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("0.0.0.0/1"), netip.MustParsePrefix("128.0.0.0/1"),
	netip.MustParsePrefix("::/0"), netip.MustParsePrefix("2000::/4"), netip.MustParsePrefix("2000::/5"),
}

// worst returns the milliseconds that the slowest change of one route takes, the
// default route's among them, until all lookups see it.
func (m *Measurer) worst() (ms float64, err error) {
	err = m.readers.during(func() error {
		for _, p := range wide {
			t := m.weft[familyOf(p)]
			if _, ok := t.Get(p); ok {
				continue
			}
			start := time.Now()
			if err := t.Insert(p, passing); err != nil {
				return err
			}
			between := time.Now()
			if _, err := t.Delete(p); err != nil {
				return err
			}
			slowest := max(between.Sub(start), time.Since(between))
			ms = max(ms, float64(slowest.Microseconds())/1000)
		}
		return nil
	})
	return ms, err
}

func (m *Measurer) updateOneByOne(list []netip.Prefix, back []uint32) error {
	r := recycler{tables: m.weft, passed: make(chan error, 1)}
	for i, p := range list {
		t := m.weft[familyOf(p)]
		err := r.retry(func() error { _, err := t.Delete(p); return err })
		if err == nil {
			err = r.retry(func() error { return t.Insert(p, back[i]) })
		}
		if err == nil && i%256 == 0 {
			err = r.turn()
		}
		if err != nil {
			return errors.Join(err, r.wait())
		}
	}
	return r.wait()
}

// recycler makes replaced blocks fit for use again, a grace period after.
type recycler struct {
	tables  map[int]*fib.Table
	marks   map[int]uint64
	waiting bool
	passed  chan error
}

// turn releases if a grace period has passed, and starts the next.
func (r *recycler) turn() error {
	if r.waiting {
		select {
		case err := <-r.passed:
			if err := r.release(err); err != nil {
				return err
			}
		default:
			return r.throttle()
		}
	}
	r.marks = map[int]uint64{}
	for f, t := range r.tables {
		r.marks[f] = t.Seal()
	}
	r.waiting = true
	go func() { r.passed <- datapath.Grace() }()
	return nil
}

// throttle waits for the grace period if too much does: what waits is memory
// that a table takes beside its routes.
func (r *recycler) throttle() error {
	const most = 1 << 18 // words
	for _, t := range r.tables {
		if t.Waiting() > most {
			return r.wait()
		}
	}
	return nil
}

func (r *recycler) release(err error) error {
	r.waiting = false
	if err != nil {
		return err
	}
	for f, mark := range r.marks {
		r.tables[f].Release(mark)
	}
	return nil
}

func (r *recycler) wait() error {
	if !r.waiting {
		return nil
	}
	return r.release(<-r.passed)
}

// retry does an update again if the arena was full and something waits.
func (r *recycler) retry(update func() error) error {
	err := update()
	for tries := 0; errors.Is(err, fib.ErrFull) && tries < 2; tries++ {
		if err := errors.Join(r.wait(), r.turn(), r.wait()); err != nil {
			return err
		}
		err = update()
	}
	return err
}
