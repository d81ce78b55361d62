package addresspool

import (
	"fmt"
	"net/netip"
	"testing"
)

func prefixes(list ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range list {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

// login finds what is free for a login, holds and remembers it.
func login(t *testing.T, a *Allocator[string], name string) Lease {
	t.Helper()
	got, _, err := a.Find(Request{Login: name})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	a.Hold(name, got)
	a.Remember(name, got)
	return got
}

// Who comes up together has addresses and prefixes that follow each other, in a
// large pool too, and keeps them.
func TestAddressesFollowEachOther(t *testing.T) {
	a := New[string]()
	a.Set(Settings{
		IPv6: true, Gateway: netip.MustParseAddr("10.64.0.1"), Bits: 56,
		Pools:    []Pool{{Addresses: prefixes("10.64.0.0/16")}},
		Prefixes: prefixes("2001:db8:1000::/40"), Delegate: prefixes("2001:db9::/32"),
	}, []Lease{{IPv4: netip.MustParseAddr("10.64.0.7")}})
	user := func(i int) string { return fmt.Sprint("user", i) }
	var all []Lease
	for i := range 300 {
		is := login(t, a, user(i))
		all = append(all, is)
		if i == 0 {
			continue
		}
		was := all[i-1]
		want := was.IPv4.Next()
		if want == netip.MustParseAddr("10.64.0.7") {
			want = want.Next()
		}
		if is.IPv4 != want || is.Prefix != after(was.Prefix) || is.Delegated != after(was.Delegated) {
			t.Fatalf("number %d is given %+v, the one before %+v", i, is, was)
		}
	}
	// a login that returns gets the same address, also if others came meanwhile
	was := all[10]
	a.Release(user(10), was)
	if other := login(t, a, user(1000)); other.IPv4 == was.IPv4 || other.Delegated == was.Delegated {
		t.Errorf("another login is given %+v", other)
	}
	if again := login(t, a, user(10)); again != was {
		t.Errorf("it is given %+v, and had %+v", again, was)
	}
}

// after is the next prefix of the same length.
func after(p netip.Prefix) netip.Prefix {
	b := p.Addr().As16()
	for i := p.Bits()/8 - 1; i >= 0; i-- {
		if b[i]++; b[i] != 0 {
			break
		}
	}
	return netip.PrefixFrom(netip.AddrFrom16(b), p.Bits())
}

// What is free is found where a space is nearly full, and where much of it is a
// user's own.
func TestTheLastFreeAddressIsFound(t *testing.T) {
	a := New[string]()
	a.Set(Settings{
		IPv6: true, Bits: 64, Pools: []Pool{{Addresses: prefixes("10.64.0.0/29")}}, Delegate: prefixes("2001:db8::/32"),
	}, []Lease{{Delegated: netip.MustParsePrefix("2001:db8::/40")}})
	seen := map[netip.Addr]bool{}
	var list []Lease
	for i := range 6 {
		l := login(t, a, fmt.Sprint("user", i))
		list = append(list, l)
		if d := l.Delegated; !d.IsValid() || a.own6.OverlapsPrefix(d) {
			t.Errorf("number %d is given %s", i, d)
		}
		seen[l.IPv4] = true
	}
	if got, _, err := a.Find(Request{Login: "late"}); len(seen) != 6 || err == nil {
		t.Errorf("%d addresses were there, and one more: %+v", len(seen), got)
	}
	a.Release("user3", list[3])
	if _, _, err := a.Find(Request{Login: "late"}); err != nil {
		t.Errorf("one is free: %v", err)
	}
}

// What one holder has is not taken back by another that had it before.
func TestReleaseLeavesWhatAnotherHolds(t *testing.T) {
	a := New[string]()
	l := Lease{IPv4: netip.MustParseAddr("192.0.2.1"), Delegated: netip.MustParsePrefix("2001:db8::/56")}
	a.Hold("first", l)
	a.Hold("second", l)
	a.Release("first", l)
	if h, held := a.Holder4(l.IPv4); !held || h != "second" || !a.held6(l.Delegated) {
		t.Errorf("%s is held by %q (%v)", l.IPv4, h, held)
	}
	a.Release("second", l)
	a.Held(func(h string, ipv4 netip.Addr, p netip.Prefix) { t.Errorf("%s holds %s %s", h, ipv4, p) })
}

// FuzzLease: what logins had is read as it was written.
func FuzzLease(f *testing.F) {
	f.Add("203.0.113.5;2001:db8::/64;2001:db8:1::/56")
	f.Add("invalid IP;;invalid Prefix")
	f.Fuzz(func(t *testing.T, text string) {
		g := ParseLease(text)
		if again := ParseLease(g.String()); again != g {
			t.Fatalf("%q is %v, and then %v", text, g, again)
		}
	})
}
