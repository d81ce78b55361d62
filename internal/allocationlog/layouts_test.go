package allocationlog

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// notes is a store in memory.
type notes struct {
	times []uint64
	texts [][]byte
}

func (s *notes) Note(at uint64, text []byte, before uint64) error {
	s.times, s.texts = append(s.times, at), append(s.texts, slices.Clone(text))
	for len(s.times) > 1 && s.times[1] < before {
		s.times, s.texts = s.times[1:], s.texts[1:]
	}
	return nil
}

func (s *notes) Notes(see func(uint64, []byte) bool) error {
	for i, at := range s.times {
		if !see(at, s.texts[i]) {
			break
		}
	}
	return nil
}

func layout(pool string, block int) Layout {
	return Layout{
		Pools: []LayoutPool{{netip.MustParsePrefix(pool), 1024, 65535}}, Block: block,
		Subscribers: netip.MustParsePrefix("2001:db8:4000::/60"), SubscriberBits: 64,
	}
}

func TestWhichBlocksWereInForceIsKnownAfterwards(t *testing.T) {
	store := &notes{}
	set := func(when int, want string, present map[string]Layout) {
		t.Helper()
		// each time as a new process would
		c, err := NewLayouts(store, 1000*time.Hour).Set(at(when), present)
		if got := fmt.Sprint(c.Fixed, c.Free, c.Changed); got != want || err != nil {
			t.Errorf("at second %d fixed, free, changed are %s (%v), want %s", when, got, err, want)
		}
	}
	a, b, other := layout("192.0.2.0/28", 2016), layout("192.0.2.0/28", 1008), layout("203.0.113.0/28", 2016)
	set(10, "[east] [] []", map[string]Layout{"east": a})
	set(15, "[] [] []", map[string]Layout{"east": a}) // a restart
	set(20, "[] [] [east]", map[string]Layout{"east": b})
	set(30, "[west] [] []", map[string]Layout{"east": b, "west": other})
	set(40, "[] [east] []", map[string]Layout{"west": other})
	set(50, "[east] [] []", map[string]Layout{"east": b, "west": other})
	if len(store.times) != 5 {
		t.Errorf("%d notes were written, want one for each change", len(store.times))
	}
	history := NewLayouts(store, 1000*time.Hour)
	for when, want := range map[int]string{
		5: "", 12: "east 2016 10-20", 17: "east 2016 10-20", 25: "east 1008 20-40", 35: "east 1008 20-40, west 2016 30-",
		45: "west 2016 30-", 55: "east 1008 50-, west 2016 30-",
		20: "east 1008 20-40, east 2016 10-20", // just then: either
		40: "east 1008 20-40, west 2016 30-",
	} {
		terms, err := history.At(at(when))
		if err != nil {
			t.Fatal(err)
		}
		var list []string
		for _, term := range terms {
			until := ""
			if !term.Until.IsZero() {
				until = fmt.Sprint(int(term.Until.Sub(start()).Seconds()))
			}
			list = append(list, fmt.Sprintf("%s %d %d-%s", term.Translator, term.Layout.Block, int(term.From.Sub(start()).Seconds()), until))
		}
		slices.Sort(list)
		text := ""
		for i, l := range list {
			if i > 0 {
				text += ", "
			}
			text += l
		}
		if text != want {
			t.Errorf("at second %d: %q, want %q", when, text, want)
		}
	}
	store.texts[0] = []byte("{")
	if _, err := history.At(at(12)); err == nil {
		t.Error("a broken note is believed")
	}
}

func TestOldBlocksAreForgottenButThoseInForceStay(t *testing.T) {
	store := &notes{}
	l := NewLayouts(store, time.Hour)
	for i, block := range []int{2016, 1008, 504} {
		if _, err := l.Set(at(i*1800+10), map[string]Layout{"main": layout("192.0.2.0/28", block)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Set(at(20000), map[string]Layout{"main": layout("192.0.2.0/28", 252)}); err != nil {
		t.Fatal(err)
	}
	// the third was in force until a moment ago
	terms, err := l.At(at(19000))
	if err != nil || len(terms) != 1 || terms[0].Layout.Block != 504 {
		t.Errorf("got %v %v", terms, err)
	}
	if terms, _ := l.At(at(20)); len(terms) != 0 {
		t.Errorf("the first is still there: %v", terms)
	}
}

// Each port of the pools has one owner at most, each subscriber as many ports
// as a block has, and Has agrees with Owner.
func TestBlocksDivideThePools(t *testing.T) {
	l := Layout{
		Pools: []LayoutPool{{netip.MustParsePrefix("192.0.2.0/31"), 1024, 9000}, {netip.MustParsePrefix("203.0.113.7/32"), 20000, 29999}},
		Block: 2000, Subscribers: netip.MustParsePrefix("2001:db8:4000::/61"), SubscriberBits: 64,
		Static: []LayoutStatic{{6, netip.MustParseAddrPort("[2001:db8:9::1]:80"), netip.MustParseAddrPort("192.0.2.0:1030")}},
	}
	random := rand.New(rand.NewPCG(3, 1))
	ports := map[netip.Prefix]int{}
	for _, a := range []string{"192.0.2.0", "192.0.2.1", "203.0.113.7", "198.51.100.1"} {
		for p := 0; p < 65536; p++ {
			at := netip.AddrPortFrom(netip.MustParseAddr(a), uint16(p))
			if owner, ok := l.Owner(at); ok {
				ports[owner]++
				if !l.Has(netip.AddrPortFrom(owner.Addr().Next(), uint16(random.IntN(65536))), at, 17) {
					t.Fatalf("%s has not got %s", owner, at)
				}
			}
		}
	}
	if len(ports) != 8 {
		t.Errorf("%d subscribers have blocks: %v", len(ports), ports)
	}
	for s, n := range ports {
		if n != 2000 || !l.Subscribers.Contains(s.Addr()) {
			t.Errorf("%s has %d ports", s, n)
		}
	}
	// three blocks on each of the first two addresses, then those of the third
	if owner, _ := l.Owner(netip.MustParseAddrPort("203.0.113.7:20000")); owner != netip.MustParsePrefix("2001:db8:4000:6::/64") {
		t.Errorf("the second pool begins with %s", owner)
	}
	static, node := l.Static[0], netip.MustParseAddrPort("[2001:db8:4000::1]:7")
	if !l.Has(static.IPv6, static.IPv4, 6) || l.Has(node, static.IPv4, 6) || !l.Has(node, static.IPv4, 17) {
		t.Error("what is static is not its node's, or more is")
	}
}

// What is on the disk may be anything: asking it must not end the program.
func FuzzLayoutNotes(f *testing.F) {
	f.Add([]byte(`{"main":{"pools":[{"ipv4":"192.0.2.0/28","low":1024,"high":65535}],"port_block":0,"subscribers":"2001:db8::/32","subscriber_prefix_len":64}}`))
	f.Add([]byte(`{"main":{"pools":[{"ipv4":"192.0.2.0/28","low":9,"high":3}],"port_block":-1,"subscribers":"192.0.2.0/24","subscriber_prefix_len":200}}`))
	f.Add([]byte(`{"main":{"pools":[{"ipv4":"2001:db8::/96","low":1,"high":3}],"port_block":1,"subscribers":"2001:db8::/32","subscriber_prefix_len":64}}`))
	f.Add([]byte(`{"main":{"pools":[{"ipv4":"","low":1,"high":3}],"port_block":1,"subscriber_prefix_len":64}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		store := &notes{}
		if err := store.Note(5, text, 0); err != nil {
			t.Fatal(err)
		}
		terms, _ := NewLayouts(store, time.Hour).At(time.Unix(0, 7))
		for _, term := range terms {
			term.Layout.Owner(netip.MustParseAddrPort("192.0.2.1:4711"))
		}
	})
}
