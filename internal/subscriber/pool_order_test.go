package subscriber

import (
	"fmt"
	"net/netip"
	"testing"
)

// Who comes up together has addresses and prefixes that follow each other, in a
// large pool too, and keeps them.
func TestAddressesFollowEachOther(t *testing.T) {
	s := newServer(ServerSettings{
		IPv6: true, Gateway: netip.MustParseAddr("10.64.0.1"), Bits: 56,
		Pools:    []Pool{{Addresses: prefixes("10.64.0.0/16")}},
		Prefixes: prefixes("2001:db8:1000::/40"), Delegate: prefixes("2001:db9::/32"),
		Users: []User{{Login: "own", Profile: Profile{IPv4: netip.MustParseAddr("10.64.0.7")}}},
	})
	e := &Engine{}
	e.pending.clear()
	login := func(i int) *session {
		one := &session{engine: e, local: uint16(i), login: fmt.Sprint("user", i)}
		if fault := s.assign(one, Profile{}); fault != "" {
			t.Fatalf("%s: %s", one.login, fault)
		}
		return one
	}
	var all []*session
	for i := range 300 {
		one := login(i)
		all = append(all, one)
		if i == 0 {
			continue
		}
		was, is := all[i-1].given, one.given
		want := was.ipv4.Next()
		if want == netip.MustParseAddr("10.64.0.7") {
			want = want.Next()
		}
		if is.ipv4 != want || is.prefix != after(was.prefix) || is.delegated != after(was.delegated) {
			t.Fatalf("number %d is given %+v, the one before %+v", i, is, was)
		}
	}
	// one that was away has the same again, whoever came meanwhile
	was := all[10].given
	s.release(all[10])
	if other := login(1000); other.given.ipv4 == was.ipv4 || other.given.delegated == was.delegated {
		t.Errorf("somebody else is given %+v", other.given)
	}
	if again := login(10); again.given != was {
		t.Errorf("it is given %+v, and had %+v", again.given, was)
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

// What is free is found where a space is nearly full, and where much of it is
// somebody's own.
func TestTheLastFreeAddressIsFound(t *testing.T) {
	s := newServer(ServerSettings{
		IPv6: true, Bits: 64, Pools: []Pool{{Addresses: prefixes("10.64.0.0/29")}},
		Delegate: prefixes("2001:db8::/32"),
		Users:    []User{{Login: "own", Profile: Profile{Delegated: netip.MustParsePrefix("2001:db8::/40")}}},
	})
	e := &Engine{}
	e.pending.clear()
	seen := map[netip.Addr]bool{}
	var list []*session
	for i := range 6 {
		one := &session{engine: e, local: uint16(i), login: fmt.Sprint("user", i)}
		list = append(list, one)
		if fault := s.assign(one, Profile{}); fault != "" {
			t.Fatalf("number %d: %s", i, fault)
		}
		if d := one.given.delegated; !d.IsValid() || s.own6.OverlapsPrefix(d) {
			t.Errorf("number %d is given %s", i, d)
		}
		seen[one.given.ipv4] = true
	}
	late := &session{engine: e, local: 9, login: "late"}
	if fault := s.assign(late, Profile{}); len(seen) != 6 || fault == "" {
		t.Errorf("%d addresses were there, and one more: %q", len(seen), fault)
	}
	s.release(list[3])
	if fault := s.assign(late, Profile{}); fault != "" {
		t.Errorf("one is free: %s", fault)
	}
}
