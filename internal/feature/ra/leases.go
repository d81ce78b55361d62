package ra

import (
	"cmp"
	"container/heap"
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"slices"
	"time"
)

// Kind is what a lease is about.
type Kind string

const (
	KindAddress Kind = "address" // IA_NA
	KindPrefix  Kind = "prefix"  // IA_PD
)

// Binding says whose a lease is (RFC 8415 section 4.2).
type Binding struct {
	Client string // DUID, as bytes
	IAID   [4]byte
	Kind   Kind
}

// Lease is an address or prefix that a client has until a time.
type Lease struct {
	Binding
	Prefix netip.Prefix // length 128 for an address
	Until  time.Time
	Peer   netip.Addr // the client's link-local address: where a prefix is routed to
}

// Store keeps leases over a restart.
type Store interface {
	Put(Lease) error
	Delete(Lease) error
}

// leasesMax bounds the leases of one link.
const leasesMax = 65536

// bindingsMax bounds one client's.
const bindingsMax = 8

// leases are the leases of one link, by client and by prefix.
type leases struct {
	byBinding map[Binding]Lease
	byPrefix  map[netip.Prefix]Binding
	perClient map[string]int
	ends      ends
	vacant    vacant
}

func newLeases() *leases {
	return &leases{byBinding: map[Binding]Lease{}, byPrefix: map[netip.Prefix]Binding{}, perClient: map[string]int{}}
}

func (l *leases) put(one Lease) {
	l.drop(one.Binding)
	l.byBinding[one.Binding] = one
	l.byPrefix[one.Prefix] = one.Binding
	l.perClient[one.Client]++
	heap.Push(&l.ends, end{one.Until, one.Binding})
	if len(l.ends) > 2*len(l.byBinding)+endsSlack {
		l.ends = l.ends[:0]
		for _, one := range l.byBinding {
			l.ends = append(l.ends, end{one.Until, one.Binding})
		}
		heap.Init(&l.ends)
	}
}

func (l *leases) drop(b Binding) (Lease, bool) {
	one, ok := l.byBinding[b]
	if !ok {
		return Lease{}, false
	}
	delete(l.byBinding, b)
	delete(l.byPrefix, one.Prefix)
	l.vacant.add(one.Prefix)
	if l.perClient[b.Client]--; l.perClient[b.Client] == 0 {
		delete(l.perClient, b.Client)
	}
	return one, true
}

// end is when a lease ends, unless it was renewed since.
type end struct {
	at time.Time
	of Binding
}

// endsSlack is how many ends of leases that were renewed are kept at least, before the
// others are collected.
const endsSlack = 1024

// ends has the soonest first.
type ends []end

func (e ends) Len() int           { return len(e) }
func (e ends) Less(i, k int) bool { return e[i].at.Before(e[k].at) }
func (e ends) Swap(i, k int)      { e[i], e[k] = e[k], e[i] }
func (e *ends) Push(x any)        { *e = append(*e, x.(end)) }
func (e *ends) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// expired returns those whose time is over. It does not look at the others.
func (l *leases) expired(now time.Time) []Lease {
	var list []Lease
	for len(l.ends) > 0 && !l.ends[0].at.After(now) {
		e := heap.Pop(&l.ends).(end)
		if one, ok := l.byBinding[e.of]; ok && one.Until.Equal(e.at) {
			list = append(list, one)
		}
	}
	return list
}

// all returns the leases in the order of their prefixes.
func (l *leases) all() []Lease {
	var list []Lease
	for _, one := range l.byBinding {
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b Lease) int {
		return cmp.Or(a.Prefix.Addr().Compare(b.Prefix.Addr()), cmp.Compare(a.Prefix.Bits(), b.Prefix.Bits()))
	})
	return list
}

func digest(b Binding, pool netip.Prefix, try uint32) uint64 {
	h := sha256.New()
	h.Write(pool.Addr().AsSlice())
	h.Write(b.IAID[:])
	h.Write(binary.BigEndian.AppendUint32([]byte(b.Kind), try))
	h.Write([]byte(b.Client))
	return binary.BigEndian.Uint64(h.Sum(nil))
}

// nth returns the n-th prefix of a length inside a pool, counted round and round.
func nth(pool netip.Prefix, bits int, n uint64) netip.Prefix {
	a := pool.Masked().Addr().As16()
	for i := bits - 1; i >= pool.Bits() && n != 0; i-- {
		if n&1 == 1 {
			a[i/8] |= 1 << (7 - i%8)
		}
		n >>= 1
	}
	return netip.PrefixFrom(netip.AddrFrom16(a), bits)
}
