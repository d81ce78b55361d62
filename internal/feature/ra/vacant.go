package ra

import "net/netip"

// tries is how many places are looked at for a free one, before those in order.
const tries = 32

// Of the places of a pool so many are looked at in order, and so many for one message.
const (
	scanMax  = 65536
	scanOnce = 4096
)

// freedMax is how many places that became free are remembered.
const freedMax = 4096

// vacant knows where a search for a free place is in vain: any host can pretend to be so
// many clients that a pool is full, and the search must not cost time for each of them.
type vacant struct {
	looked map[space]uint64       // how many places of it, in order, are free only if they are in freed
	freed  map[int][]netip.Prefix // by length, what became free since
}

// space is a pool, and the length of what is given out of it.
type space struct {
	pool netip.Prefix
	bits int
}

func (s space) room() uint64 {
	if n := s.bits - s.pool.Bits(); n < 16 {
		return 1 << n
	}
	return scanMax
}

// add notes a place that may be free from now on.
func (v *vacant) add(p netip.Prefix) {
	if len(v.looked) == 0 {
		return // a search finds it
	}
	if len(v.freed[p.Bits()]) >= freedMax {
		v.reset()
		return
	}
	if v.freed == nil {
		v.freed = map[int][]netip.Prefix{}
	}
	v.freed[p.Bits()] = append(v.freed[p.Bits()], p)
}

// reset forgets all: other places may be free.
func (v *vacant) reset() { v.looked, v.freed = nil, nil }

// take returns a place that became free and is still free, if it is in the pools. It
// stays noted: it may be offered only.
func (v *vacant) take(pools []netip.Prefix, bits int, free func(netip.Prefix) bool) (netip.Prefix, bool) {
	for list := v.freed[bits]; len(list) > 0; list = v.freed[bits] {
		p := list[len(list)-1]
		for _, pool := range pools {
			if within(p, pool) && free(p) {
				return p, true
			}
		}
		v.freed[bits] = list[:len(list)-1]
	}
	return netip.Prefix{}, false
}

// scan looks at places of a pool in order, and goes on where the last scan ended.
func (v *vacant) scan(s space, free func(netip.Prefix) bool) (netip.Prefix, bool) {
	from, end := v.looked[s], s.room()
	for i := from; i < min(end, from+scanOnce); i++ {
		if p := nth(s.pool, s.bits, i); free(p) {
			return p, true
		}
		if v.looked == nil {
			v.looked = map[space]uint64{}
		}
		v.looked[s] = i + 1
	}
	return netip.Prefix{}, false
}

// find returns a free prefix of a length from the pools. A client gets the same prefix
// again while it is free, also if its lease was forgotten. The prefixes are spread, so
// that the neighbours' prefixes cannot be guessed (RFC 7824). In a pool that is nearly
// full a client may have to ask again, until all of it was looked at.
func (l *leases) find(pools []netip.Prefix, bits int, b Binding, free func(netip.Prefix) bool) (netip.Prefix, bool) {
	for try := range uint32(tries) {
		for _, pool := range pools {
			if p := nth(pool, bits, digest(b, pool, try)); free(p) {
				return p, true
			}
		}
	}
	if p, ok := l.vacant.take(pools, bits, free); ok {
		return p, true
	}
	for _, pool := range pools {
		if p, ok := l.vacant.scan(space{pool, bits}, free); ok {
			return p, true
		}
	}
	return netip.Prefix{}, false
}
