package ra

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"
)

func leaseOf(n uint32, p netip.Prefix, until time.Time) Lease {
	return Lease{Binding: Binding{Client: string(binary.BigEndian.AppendUint32(nil, n)), Kind: KindAddress}, Prefix: p, Until: until}
}

// A host that pretends to be any number of clients fills a pool. What a message costs then
// does not depend on the size of the pool, and what becomes free is found at once.
func TestAFullPoolIsNotSearchedForEachMessage(t *testing.T) {
	pool := netip.MustParsePrefix("2001:db8:1::d:0/112")
	l, now := newLeases(), time.Unix(1e9, 0)
	for i := range uint32(1 << 16) {
		l.put(leaseOf(i, nth(pool, 128, uint64(i)), now.Add(time.Hour)))
	}
	looks := 0
	free := func(p netip.Prefix) bool {
		looks++
		_, taken := l.byPrefix[p]
		return !taken
	}
	find := func(n uint32) (netip.Prefix, bool) {
		looks = 0
		return l.find([]netip.Prefix{pool}, 128, leaseOf(n, pool, now).Binding, free)
	}
	for n := range uint32(40) {
		if _, ok := find(1<<20 + n); ok || looks > scanOnce+tries || n > 20 && looks > tries {
			t.Fatalf("%d places are looked at in a full pool", looks)
		}
	}
	// each that is released is found, one by one or thousands at a time
	for _, many := range []uint32{1, 3, 5000} {
		for i := range many {
			l.drop(leaseOf(40000-i, pool, now).Binding)
		}
		for i := range many {
			p, ok := find(1<<21 + i)
			for again := 0; !ok && again < 20; again++ { // more became free than is remembered
				p, ok = find(1<<21 + i)
			}
			if !ok || looks > scanOnce+2*tries {
				t.Fatalf("%d of %d are found again, after %d looks", i, many, looks)
			}
			l.put(leaseOf(40000-many+1+i, p, now.Add(time.Hour)))
		}
		if _, ok := find(1 << 22); ok {
			t.Fatal("more than was released is found")
		}
	}
}

// Leases end one by one, in the order of their times, also those that were renewed.
func TestLeasesThatEndOneByOneAreNotAllLookedAt(t *testing.T) {
	l, now := newLeases(), time.Unix(1e9, 0)
	place := func(i int) netip.Prefix { return nth(netip.MustParsePrefix("2001:db8:1::/112"), 128, uint64(i)) }
	const many = 20000
	for i := range many {
		l.put(leaseOf(uint32(i), place(i), now.Add(time.Duration(i)*time.Second)))
	}
	for round := range 3 {
		for i := range many / 2 { // the first half renews, again and again
			l.put(leaseOf(uint32(i), place(i), now.Add(time.Duration(many+round*many+i)*time.Second)))
		}
	}
	if len(l.ends) > 3*many {
		t.Errorf("%d ends are kept of %d leases", len(l.ends), many)
	}
	ended := 0
	for i := many / 2; i < many; i++ {
		list := l.expired(now.Add(time.Duration(i) * time.Second))
		for _, one := range list {
			l.drop(one.Binding)
			ended++
		}
		if ended != i-many/2+1 {
			t.Fatalf("%d have ended after %d seconds", ended, i)
		}
	}
	if list := l.expired(now.Add(6 * many * time.Second)); len(list) != many/2 {
		t.Errorf("%d of the others end", len(list))
	}
}
