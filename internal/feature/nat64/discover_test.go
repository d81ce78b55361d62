package nat64_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"weft/internal/feature/nat64"
)

func TestPrefixesAreFoundInTheAddresses(t *testing.T) {
	for _, c := range []struct {
		addresses, want string // one word each
		several         bool
	}{
		{addresses: "64:ff9b::192.0.0.170", want: "64:ff9b::/96"},
		{addresses: "2001:db8:64::192.0.0.171", want: "2001:db8:64::/96"},
		{addresses: "2001:db8:c000:aa::", want: "2001:db8::/32"},
		{addresses: "2001:db8:1c0:0:aa::", want: "2001:db8:100::/40"},
		{addresses: "2001:db8:122:c000:0:aa00::", want: "2001:db8:122::/48"},
		{addresses: "2001:db8:122:3c0:0:aa::", want: "2001:db8:122:300::/56"},
		{addresses: "2001:db8:122:344:c0:0:aa00::", want: "2001:db8:122:344::/64"},
		{addresses: "2001:db8::1", want: ""},
		{addresses: "::ffff:192.0.0.170", want: ""},
		{addresses: "192.0.0.170", want: ""},
	} {
		got := nat64.PrefixesIn([]netip.Addr{netip.MustParseAddr(c.addresses)})
		text := ""
		if len(got) > 0 {
			text = got[0].String()
		}
		if text != c.want || len(got) > 1 {
			t.Errorf("%s: %v, want %s", c.addresses, got, c.want)
		}
	}
	// both addresses under one prefix, and another prefix
	got := nat64.PrefixesIn([]netip.Addr{netip.MustParseAddr("64:ff9b::192.0.0.170"), netip.MustParseAddr("64:ff9b::192.0.0.171"), netip.MustParseAddr("2001:db8:64::192.0.0.171")})
	if len(got) != 2 {
		t.Error(got)
	}
	// 192.0.0.170 in two places at once: ambiguous
	twice := netip.MustParseAddr("2001:db8:c000:aa::192.0.0.170")
	if got := nat64.PrefixesIn([]netip.Addr{twice}); len(got) != 0 {
		t.Error(got)
	}
}

func TestAdvertisementsCountMoreThanTheDNS(t *testing.T) {
	now := time.Unix(1e9, 0)
	p := netip.MustParsePrefix
	r1, r2 := netip.MustParseAddr("fe80::1"), netip.MustParseAddr("fe80::2")
	d := nat64.NewDiscovery(nat64.DiscoverAny, netip.Prefix{}, now)
	want := func(what string, s string) {
		t.Helper()
		got := d.Prefix(now)
		if s == "" && got.IsValid() || s != "" && got != p(s) {
			t.Errorf("%s: %v, want %s", what, got, s)
		}
	}
	want("nothing is known", "")
	d.Answered([]netip.Addr{netip.MustParseAddr("2001:db8:d::192.0.0.170")}, time.Minute, now)
	want("from the DNS", "2001:db8:d::/96")
	d.Receive(r1, p("2001:db8:b::/96"), 30*time.Second, now)
	want("from a router", "2001:db8:b::/96")
	d.Receive(r2, p("2001:db8:a::/96"), time.Hour, now)
	want("from another router", "2001:db8:b::/96")
	now = now.Add(31 * time.Second)
	want("the first is out of time", "2001:db8:a::/96")
	d.Receive(r2, p("2001:db8:a::/96"), 0, now)
	want("the second took it back", "2001:db8:d::/96")
	d.Failed(now)
	want("no server answers", "2001:db8:d::/96")
	d.Answered(nil, time.Minute, now)
	want("there is no DNS64 any more", "")
}

func TestWhatWasKnownBeforeHoldsUntilThereIsNews(t *testing.T) {
	now := time.Unix(1e9, 0)
	before := netip.MustParsePrefix("64:ff9b::/96")
	d := nat64.NewDiscovery(nat64.DiscoverAny, before, now)
	if d.Prefix(now) != before {
		t.Error(d.Prefix(now))
	}
	d.Failed(now)
	if d.Prefix(now.Add(time.Hour)) != before {
		t.Error(d.Prefix(now))
	}
	d.Receive(netip.MustParseAddr("fe80::1"), netip.MustParsePrefix("2001:db8::/96"), time.Hour, now)
	if d.Prefix(now) == before {
		t.Error("news change nothing")
	}
}

func TestQuestionsForTheNameAreSpaced(t *testing.T) {
	now := time.Unix(1e9, 0)
	d := nat64.NewDiscovery(nat64.DiscoverDNS, netip.Prefix{}, now)
	if at, ask := d.AskAt(); !ask || at != now {
		t.Error(at, ask)
	}
	var waits []time.Duration
	for range 14 {
		d.Failed(now)
		at, _ := d.AskAt()
		waits = append(waits, at.Sub(now))
	}
	if waits[0] != time.Second || waits[3] != 8*time.Second || waits[13] != time.Hour || !slices.IsSorted(waits) {
		t.Error(waits)
	}
	d.Answered(nil, time.Second, now)
	if at, _ := d.AskAt(); at.Sub(now) != 30*time.Second {
		t.Error(at.Sub(now))
	}
	if _, ask := nat64.NewDiscovery(nat64.DiscoverPREF64, netip.Prefix{}, now).AskAt(); ask {
		t.Error("asks, and should only listen")
	}
	d.Receive(netip.MustParseAddr("fe80::1"), netip.MustParsePrefix("2001:db8::/96"), time.Hour, now)
	if d.Prefix(now).IsValid() {
		t.Error("listens, and should only ask")
	}
}

func FuzzPrefixesIn(f *testing.F) {
	f.Add(netip.MustParseAddr("64:ff9b::192.0.0.170").AsSlice())
	f.Fuzz(func(t *testing.T, b []byte) {
		a, ok := netip.AddrFromSlice(b)
		if !ok {
			return
		}
		for _, p := range nat64.PrefixesIn([]netip.Addr{a}) {
			if !p.Contains(a) {
				t.Errorf("%s is not in %s", a, p)
			}
		}
	})
}
