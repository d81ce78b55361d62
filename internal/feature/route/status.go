package route

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"weft/fib"
)

// Status is what the mirror holds, and what it leaves to the kernel.
type Status struct {
	Prefixes4 int        `json:"ipv4_prefixes"`
	Prefixes6 int        `json:"ipv6_prefixes"`
	Hosts     int        `json:"neighbour_entries"` // neighbours with an entry of their own
	Nexthops  int        `json:"nexthops"`
	Stack     []LeftOver `json:"left_to_the_kernel"`
	Suspended [2]string  `json:"-"`
	Changes   uint64     `json:"changes"` // news of routes so far
}

// LeftOver counts routes that are left to the kernel for one reason.
type LeftOver struct {
	Family string `json:"family"`
	Why    string `json:"why"`
	Routes int    `json:"routes"`
}

// Status counts.
func (s *Service) Status() Status {
	st := Status{Hosts: len(s.hosts), Nexthops: len(s.paths.byNumber), Suspended: s.suspended, Changes: s.changes}
	for _, t := range s.tables {
		st.Prefixes4 += len(t.rib.four.first)
		st.Prefixes6 += len(t.rib.six.first)
	}
	left := map[LeftOver]int{}
	for _, p := range s.paths.byNumber {
		// each reason's path is held once by the service itself
		if p.key.kind == viaStack && p.refs > 1 {
			left[LeftOver{Family: p.key.family.String(), Why: string(p.key.why)}] += p.refs - 1
		}
	}
	for _, t := range s.tables {
		for f, n := range s.unsure(t) {
			if n > 0 {
				left[LeftOver{Family: family(f).String(), Why: string(whyUnsure)}] += n
			}
		}
	}
	for l, n := range left {
		l.Routes = n
		st.Stack = append(st.Stack, l)
	}
	slices.SortFunc(st.Stack, func(a, b LeftOver) int {
		return cmp.Or(b.Routes-a.Routes, cmp.Compare(a.Family, b.Family), cmp.Compare(a.Why, b.Why))
	})
	return st
}

// unsure counts the prefixes with several routes that only the kernel chooses
// between.
func (s *Service) unsure(t *table) (n [2]int) {
	for k, list := range t.rib.four.more {
		if s.paths.byNumber[s.best(t.rib, k.prefix(), list)].key.why == whyUnsure {
			n[ipv4]++
		}
	}
	for k, list := range t.rib.six.more {
		if s.paths.byNumber[s.best(t.rib, k.prefix(), list)].key.why == whyUnsure {
			n[ipv6]++
		}
	}
	return n
}

// Suspended returns for IPv4 and IPv6 why they are left to the kernel altogether;
// empty where they are not.
func (s *Service) Suspended() [2]string { return s.suspended }

// TableStats is one family of one table.
type TableStats struct {
	Number int
	Kernel uint32
	Stats  fib.Stats
}

// Tables returns the statistics of each.
func (s *Service) Tables() []TableStats {
	var list []TableStats
	for i, t := range s.tables {
		for _, f := range t.fibs {
			list = append(list, TableStats{i, t.kernel, f.Stats()})
		}
	}
	return list
}

// Explain takes a lookup in a table apart.
func (s *Service) Explain(number int, a netip.Addr) (fib.Explanation, error) {
	if number < 0 || number >= len(s.tables) {
		return fib.Explanation{}, fmt.Errorf("there is no route table %d: there are %d", number, len(s.tables))
	}
	return s.tables[number].fibs[familyOf(a)].Explain(a), nil
}
