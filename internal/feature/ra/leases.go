package ra

import (
	"cmp"
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
	soonest   time.Time // no lease ends before; zero: not known
}

func newLeases() *leases {
	return &leases{byBinding: map[Binding]Lease{}, byPrefix: map[netip.Prefix]Binding{}, perClient: map[string]int{}}
}

func (l *leases) put(one Lease) {
	l.drop(one.Binding)
	l.byBinding[one.Binding] = one
	l.byPrefix[one.Prefix] = one.Binding
	l.perClient[one.Client]++
	if one.Until.Before(l.soonest) {
		l.soonest = one.Until
	}
}

func (l *leases) drop(b Binding) (Lease, bool) {
	one, ok := l.byBinding[b]
	if !ok {
		return Lease{}, false
	}
	delete(l.byBinding, b)
	delete(l.byPrefix, one.Prefix)
	if l.perClient[b.Client]--; l.perClient[b.Client] == 0 {
		delete(l.perClient, b.Client)
	}
	return one, true
}

// expired returns those whose time is over.
func (l *leases) expired(now time.Time) []Lease {
	if now.Before(l.soonest) {
		return nil
	}
	var list []Lease
	l.soonest = now.Add(time.Hour)
	for _, one := range l.byBinding {
		if !one.Until.After(now) {
			list = append(list, one)
		} else if one.Until.Before(l.soonest) {
			l.soonest = one.Until
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

// tries is how many places are looked at for a free one, before those in order.
const tries = 32

// scanMax is how many are looked at in order.
const scanMax = 65536

// find returns a free prefix of a length from the pools. A client gets the same prefix
// again while it is free, also if its lease was forgotten. The prefixes are spread, so
// that the neighbours' prefixes cannot be guessed (RFC 7824).
func find(pools []netip.Prefix, bits int, b Binding, free func(netip.Prefix) bool) (netip.Prefix, bool) {
	for try := range uint32(tries) {
		for _, pool := range pools {
			if p := nth(pool, bits, digest(b, pool, try)); free(p) {
				return p, true
			}
		}
	}
	for _, pool := range pools {
		room := uint64(scanMax)
		if n := bits - pool.Bits(); n < 16 {
			room = 1 << n
		}
		for i := range room {
			if p := nth(pool, bits, i); free(p) {
				return p, true
			}
		}
	}
	return netip.Prefix{}, false
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
