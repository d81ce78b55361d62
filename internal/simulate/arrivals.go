package simulate

import (
	"slices"
	"sort"
)

// arrival is a stream that is to come.
type arrival struct {
	at     Time
	source int
	size   int64
	page   *page
	item   int
}

// page is a web page that is being loaded.
type page struct {
	begin Time
	left  int // items not complete
}

// arrivals knows which stream comes next. Sources are looked at only when their
// next arrival is taken, so that endless ones need no memory.
type arrivals struct {
	sources []sourceState
	items   []arrival // of pages under way, sorted by time
}

type sourceState struct {
	setup *Source
	dice  *dice
	at    Time // of the next arrival, never at the end
	made  int
}

func (a *arrivals) init(s *Setup) {
	for i := range s.Sources {
		src := &s.Sources[i]
		st := sourceState{setup: src, dice: newDice(s.Seed, "source", i), at: src.First}
		if src.Poisson {
			st.at += Time(st.dice.exponential(int64(src.Every)))
		}
		if src.Last > 0 && st.at > src.Last {
			st.at = never
		}
		a.sources = append(a.sources, st)
	}
}

// earliest returns the source that is next, -1 if none is.
func (a *arrivals) earliest() int {
	best := -1
	for i := range a.sources {
		if at := a.sources[i].at; at != never && (best < 0 || at < a.sources[best].at) {
			best = i
		}
	}
	return best
}

func (a *arrivals) next() Time {
	at := never
	if i := a.earliest(); i >= 0 {
		at = a.sources[i].at
	}
	if len(a.items) > 0 {
		at = min(at, a.items[0].at)
	}
	return at
}

func (a *arrivals) empty() bool { return a.next() == never }

// pop takes the next arrival, which is due now. It says false where that was a
// page, whose first items are planned now.
func (a *arrivals) pop() (arrival, bool) {
	i := a.earliest()
	if len(a.items) > 0 && (i < 0 || a.items[0].at <= a.sources[i].at) {
		x := a.items[0]
		a.items = slices.Delete(a.items, 0, 1)
		return x, true
	}
	st := &a.sources[i]
	at := st.at
	st.step()
	if len(st.setup.Page) == 0 {
		return arrival{at: at, source: i, size: st.size()}, true
	}
	a.follow(at, i, &page{begin: at, left: len(st.setup.Page)}, -1)
	return arrival{}, false
}

// step finds the source's next arrival.
func (st *sourceState) step() {
	s := st.setup
	st.made++
	gap := s.Every
	if s.Poisson {
		gap = Time(st.dice.exponential(int64(s.Every)))
	}
	st.at += gap
	if s.Count > 0 && st.made >= s.Count || s.Last > 0 && st.at > s.Last {
		st.at = never
	}
}

func (st *sourceState) size() int64 {
	s := st.setup
	switch s.Spread {
	case Exponential:
		return min(max(1, st.dice.exponential(s.Size)), Unlimited)
	case Pareto:
		return min(max(1, st.dice.pareto(s.Size)), Unlimited)
	}
	return s.Size
}

// follow plans the items that wait for an item of a page, or for its begin (-1).
func (a *arrivals) follow(now Time, source int, pg *page, after int) {
	for k, it := range a.sources[source].setup.Page {
		if it.After != after {
			continue
		}
		x := arrival{at: now + it.Wait, source: source, size: it.Size, page: pg, item: k}
		i := sort.Search(len(a.items), func(n int) bool { return a.items[n].at > x.at })
		a.items = slices.Insert(a.items, i, x)
	}
}

// itemDone is an item that is complete; it says true if the page is.
func (a *arrivals) itemDone(now Time, s *stream) bool {
	a.follow(now, s.source, s.page, s.item)
	s.page.left--
	return s.page.left == 0
}
