package fib

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"testing"
)

func TestLookup(t *testing.T) {
	type want map[string]uint32
	tests := []struct {
		name   string
		routes []string // values count from 1
		want   want
	}{
		{"an empty IPv4 table has no route", nil, want{"0.0.0.0": 0, "192.0.2.1": 0}},
		{"an IPv4 default route holds everywhere", []string{"0.0.0.0/0"}, want{"0.0.0.0": 1, "255.255.255.255": 1}},
		{"the longest of nested IPv4 prefixes wins", []string{"0.0.0.0/0", "10.0.0.0/8", "10.1.0.0/16", "10.1.2.0/24", "10.1.2.3/32"},
			want{"11.0.0.0": 1, "10.0.0.0": 2, "10.1.0.0": 3, "10.1.2.4": 4, "10.1.2.3": 5, "10.1.2.2": 4}},
		{"a /32 alone catches one address", []string{"192.0.2.1/32"}, want{"192.0.2.1": 1, "192.0.2.0": 0, "192.0.2.2": 0, "192.0.3.1": 0}},
		{"halves of the IPv4 space meet in the middle", []string{"0.0.0.0/1", "128.0.0.0/1"}, want{"127.255.255.255": 1, "128.0.0.0": 2}},
		{"an IPv4 prefix that its halves hide stays unseen", []string{"198.51.100.0/23", "198.51.100.0/24", "198.51.101.0/24"},
			want{"198.51.100.9": 2, "198.51.101.9": 3}},
		{"prefixes of 20 and 24 bits lie around the page between them", []string{"198.51.96.0/20", "198.51.100.0/22", "198.51.101.0/24", "198.51.101.128/25", "198.51.101.200/32"},
			want{"198.51.96.0": 1, "198.51.100.1": 2, "198.51.101.1": 3, "198.51.101.129": 4, "198.51.101.200": 5, "198.51.102.1": 2, "198.51.111.255": 1, "198.51.112.0": 0}},
		{"an IPv6 default route holds inside and outside of 2000::/3", []string{"::/0"}, want{"2001:db8::1": 1, "fd00::1": 1, "::": 1}},
		{"2000::/3 holds inside of itself only", []string{"2000::/3"}, want{"2000::": 1, "3fff:ffff::": 1, "4000::": 0, "1fff::": 0}},
		{"2000::/4 and its halves hold where the root is", []string{"2000::/3", "2000::/4", "2800::/5", "3000::/4"},
			want{"2000::": 2, "27ff::": 2, "2800::1": 3, "3fff::": 4, "4000::": 0}},
		{"prefixes shorter than /3 hold inside of 2000::/3 too", []string{"::/0", "::/1", "::/2"}, want{"2001::": 3, "7000::": 2, "8000::": 1}},
		{"a site's unique local prefix and its subnets", []string{"fd00:1::/32", "fd00:1:2::/48", "fd00:1:2:3::/64", "fd00:1:2:3::9/128"},
			want{"fd00:1::1": 1, "fd00:1:2::1": 2, "fd00:1:2:3::1": 3, "fd00:1:2:3::9": 4, "fd00:2::": 0}},
		{"the NAT64 prefix and link-local lie side by side", []string{"64:ff9b::/96", "fe80::/10"},
			want{"64:ff9b::192.0.2.1": 1, "64:ff9b::1:0:0": 0, "fe80::1": 2, "fec0::": 0}},
		{"a lone /48 deep under nothing", []string{"2001:db8:1::/48"}, want{"2001:db8:1::": 1, "2001:db8:1:ffff::": 1, "2001:db8:2::": 0, "2001:db8::": 0}},
		{"two host routes that differ in the last bit", []string{"2001:db8::2/128", "2001:db8::3/128"},
			want{"2001:db8::2": 1, "2001:db8::3": 2, "2001:db8::1": 0, "2001:db8::4": 0}},
		{"a prefix above a jump and one that splits it", []string{"2001:db8::/32", "2001:db8:0:1::1/128", "2001:db8:0:1::/64", "2001:db8:0:2::/63"},
			want{"2001:db8::": 1, "2001:db8:0:1::1": 2, "2001:db8:0:1::2": 3, "2001:db8:0:3::": 4}},
		{"a prefix that ends where a jump lands", []string{"2001:db8:1:1::/64", "2001:db8:1:2::/64", "2001:db8:1::/48", "2001:db8:1::/47"},
			want{"2001:db8:1:1::": 1, "2001:db8:1:2::": 2, "2001:db8:1:3::": 3, "2001:db8:0:1::": 4}},
		{"prefixes whose length is no multiple of eight", []string{"2001:db8::/29", "2001:db8::/33", "2001:db8::/61", "2001:db8::/127"},
			want{"2001:db8:8000::": 1, "2001:db8:4000::": 2, "2001:db8:0:7::": 3, "2001:db8::1": 4, "2001:db8::2": 3}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for order, forward := range map[string]bool{"forward": true, "backward": false} {
				f := ipv4
				for a := range tt.want {
					if netip.MustParseAddr(a).Is6() {
						f = ipv6
					}
				}
				table := newTestTable(t, f, 1<<22)
				for i := range tt.routes {
					if !forward {
						i = len(tt.routes) - 1 - i
					}
					insert(t, table, netip.MustParsePrefix(tt.routes[i]), uint32(i+1))
				}
				for a, want := range tt.want {
					if got, _ := table.Lookup(netip.MustParseAddr(a)); got != want {
						t.Errorf("%s: lookup of %s is %d, want %d", order, a, got, want)
					}
				}
			}
		})
	}
}

func insert(t testing.TB, table *Table, p netip.Prefix, value uint32) {
	t.Helper()
	if err := table.Insert(p, value); err != nil {
		t.Fatal(err)
	}
}

func remove(t testing.TB, table *Table, p netip.Prefix) bool {
	t.Helper()
	found, err := table.Delete(p)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// randomPrefix likes prefixes that are near others.
func randomPrefix(rng *rand.Rand, f family) netip.Prefix {
	k := randomKey(rng, f)
	n := rng.IntN(f.width() + 1)
	if n < 10 && rng.IntN(8) > 0 {
		n += 10 // short ones repaint much of the root: some are enough
	}
	return netip.PrefixFrom(k.addr(f), n).Masked()
}

func randomKey(rng *rand.Rand, f family) key {
	k := key{1 << 61, 0}
	if f == ipv4 || rng.IntN(5) == 0 {
		k.hi = uint64(rng.IntN(2)) << 63
	}
	for range 3 {
		bit := rng.IntN(f.width())
		if bit < 64 {
			k.hi |= 1 << (63 - bit)
		} else {
			k.lo |= 1 << (127 - bit)
		}
	}
	return k
}

func TestRandomUpdatesAgreeWithANaiveTable(t *testing.T) {
	for _, f := range []family{ipv4, ipv6} {
		t.Run(fmt.Sprint("IPv", int(f)), func(t *testing.T) {
			for seed := range uint64(30) {
				rng := rand.New(rand.NewPCG(seed, uint64(f)))
				table := newTestTable(t, f, 1<<22)
				ref := naive{}
				for range 400 {
					randomUpdate(t, rng, table, ref)
					if rng.IntN(8) == 0 {
						table.Release(table.Seal())
					}
				}
				compare(t, rng, table, ref)
				compareWithBuild(t, table, ref)
				for _, p := range ref.prefixes() {
					if !remove(t, table, p) {
						t.Fatalf("%s was not found", p)
					}
					delete(ref, p)
				}
				compare(t, rng, table, ref)
				compareWithBuild(t, table, ref)
			}
		})
	}
}

// someValues are small, and at the edge of what fits a slot of 16 bits.
var someValues = [...]uint32{1, 2, narrowMax, narrowMax + 1, MaxValue}

func randomUpdate(t *testing.T, rng *rand.Rand, table *Table, ref naive) {
	p := randomPrefix(rng, table.family)
	if rng.IntN(3) == 0 {
		if q, found := ref.from(p); found { // one that is there
			p = q
		}
		_, want := ref[p]
		delete(ref, p)
		if got := remove(t, table, p); got != want {
			t.Fatalf("delete %s: found is %v, want %v", p, got, want)
		}
		return
	}
	value := someValues[rng.IntN(len(someValues))]
	ref[p] = value
	insert(t, table, p, value)
}

// compare looks at every boundary and at random addresses.
func compare(t *testing.T, rng *rand.Rand, table *Table, ref naive) {
	t.Helper()
	var addrs []netip.Addr
	for p, value := range ref {
		addrs = append(addrs, boundaries(p)...)
		if got, ok := table.Get(p); !ok || got != value {
			t.Fatalf("get %s is %d, %v, want %d", p, got, ok, value)
		}
	}
	for range 100 {
		addrs = append(addrs, randomKey(rng, table.family).addr(table.family), randomAddr(rng, table.family))
	}
	for _, a := range addrs {
		prefix, want := ref.lookup(a)
		if got, ok := table.Lookup(a); got != want || ok != (want != 0) {
			t.Fatalf("lookup of %s is %d, %v, want %d by %s", a, got, ok, want, prefix)
		}
		if e := table.Explain(a); e.Prefix != prefix || e.Value != want {
			t.Fatalf("explanation of %s is %s, %d, want %s, %d", a, e.Prefix, e.Value, prefix, want)
		}
	}
	if table.Len() != len(ref) {
		t.Fatalf("the table has %d prefixes, want %d", table.Len(), len(ref))
	}
}

// compareWithBuild holds that the structure depends on its prefixes alone,
// not on how they came and went.
func compareWithBuild(t *testing.T, table *Table, ref naive) {
	t.Helper()
	table.Release(table.Seal())
	fresh := newTestTable(t, table.family, len(table.words))
	if err := fresh.Build(maps.All(ref)); err != nil {
		t.Fatal(err)
	}
	if table.family == ipv6 {
		checkIndex(t, table)
		checkIndex(t, fresh)
	}
	got, want := table.Stats(), fresh.Stats()
	if got.Shape != want.Shape {
		t.Fatalf("after updates the structure is\n%+v\nbuilt at once it is\n%+v", got.Shape, want.Shape)
	}
	if got.Used+got.Free+got.Untouched != len(table.words)-Slack {
		t.Fatalf("words are missing: %d in use, %d free, %d untouched of %d", got.Used, got.Free, got.Untouched, len(table.words)-Slack)
	}
	if !maps.Equal(table.hidden.short, fresh.hidden.short) || !maps.Equal(table.hidden.long, fresh.hidden.long) {
		t.Fatalf("hidden prefixes are %v, want %v", table.hidden, fresh.hidden)
	}
}

func FuzzUpdates(f *testing.F) {
	f.Add(true, []byte{0, 24, 10, 1, 2, 3, 1, 24, 10, 1, 2, 3})
	f.Add(false, []byte{0, 48, 0x20, 1, 0, 1, 0, 64, 0x20, 1, 0, 1, 1, 48, 0x20, 1, 0, 1})
	// Made once, and empty again after each program: an IPv6 root is large.
	tables := map[bool]*Table{true: newTestTable(f, ipv4, 1<<21), false: newTestTable(f, ipv6, 1<<22)}
	f.Fuzz(func(t *testing.T, four bool, program []byte) {
		table, ref := tables[four], naive{}
		for ; len(program) >= 6; program = program[6:] {
			p := fuzzedPrefix(table.family, program)
			if program[0]&1 == 0 {
				ref[p] = someValues[int(program[0]>>1)%len(someValues)]
				insert(t, table, p, ref[p])
				continue
			}
			_, want := ref[p]
			delete(ref, p)
			if got := remove(t, table, p); got != want {
				t.Fatalf("delete %s: found is %v, want %v", p, got, want)
			}
		}
		compare(t, rand.New(rand.NewPCG(1, 1)), table, ref)
		if four {
			compareWithBuild(t, table, ref)
		}
		for _, p := range ref.prefixes() {
			if !remove(t, table, p) {
				t.Fatalf("%s was not found", p)
			}
		}
		table.Release(table.Seal())
		compare(t, rand.New(rand.NewPCG(1, 1)), table, naive{})
		if len(table.inRoot)+table.hidden.len() != 0 || table.Used()-int(table.notes(uint64(table.next))) != emptyWords(table.family) {
			t.Fatalf("an empty table holds %d words, %d hidden prefixes", table.Used(), table.hidden.len())
		}
	})
}

// emptyWords is what a table needs without any prefix.
func emptyWords(f family) int {
	if f == ipv4 {
		return MinWords4 - Slack
	}
	return MinWords6 - Slack
}

// fuzzedPrefix takes an operation, a length and four octets; IPv6 has them
// again further down.
func fuzzedPrefix(f family, program []byte) netip.Prefix {
	k := key{hi: uint64(program[2])<<56 | uint64(program[3])<<48 | uint64(program[4])<<40 | uint64(program[5])<<32}
	if f == ipv6 {
		k.hi, k.lo = k.hi|uint64(program[5])<<8, uint64(program[4])<<48|uint64(program[3])
	}
	return netip.PrefixFrom(k.addr(f), int(program[1])%(f.width()+1)).Masked()
}

func TestAFullArenaLeavesTheTableAsItWas(t *testing.T) {
	for _, f := range []family{ipv4, ipv6} {
		for room := 16; room < 1600; room += 24 {
			least := map[family]int{ipv4: MinWords4, ipv6: MinWords6}[f]
			table := newTestTable(t, f, least+room)
			rng := rand.New(rand.NewPCG(uint64(room), uint64(f)))
			ref := naive{}
			full := 0
			for range 60 {
				p := randomPrefix(rng, f)
				value := someValues[rng.IntN(len(someValues))]
				err := table.Insert(p, value)
				if err == nil {
					ref[p] = value
				} else if full++; !errors.Is(err, ErrFull) {
					t.Fatal(err)
				}
			}
			for _, p := range ref.prefixes() {
				found, err := table.Delete(p)
				if err == nil && found {
					delete(ref, p)
				} else if full++; !errors.Is(err, ErrFull) {
					t.Fatalf("delete %s: %v, %v", p, found, err)
				}
				if len(ref)%7 == 0 {
					table.Release(table.Seal())
				}
			}
			compare(t, rng, table, ref)
			if room < 200 && full == 0 {
				t.Fatalf("with room for %d words nothing failed", room)
			}
		}
	}
}

func TestBadArguments(t *testing.T) {
	table := newTestTable(t, ipv4, MinWords4)
	for name, err := range map[string]error{
		"an IPv6 prefix in an IPv4 table": table.Insert(netip.MustParsePrefix("2001:db8::/32"), 1),
		"the zero prefix":                 table.Insert(netip.Prefix{}, 1),
		"the value zero":                  table.Insert(netip.MustParsePrefix("192.0.2.0/24"), 0),
		"a value too large":               table.Insert(netip.MustParsePrefix("192.0.2.0/24"), MaxValue+1),
	} {
		if err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	if _, err := New4(make([]uint32, MinWords4-1)); err == nil {
		t.Error("an arena too small was taken")
	}
	twice := func(yield func(netip.Prefix, uint32) bool) {
		p := netip.MustParsePrefix("192.0.2.0/24")
		_ = yield(p, 1) && yield(p, 2)
	}
	if err := table.Build(twice); !errors.Is(err, ErrDuplicate) {
		t.Errorf("the same prefix twice gives %v", err)
	}
}

// reachable walks the structure and gives all IPv6 nodes that belong to the
// index, by their id.
func reachable(t *Table, word uint32, k key, depth int, found map[uint64]uint32) {
	for isJump(word) {
		off := payload(word)
		k, depth, word = t.jumpKey(off), t.jumpLen(off), t.load(off+jumpTarget)
	}
	if !isPointer(word) {
		return
	}
	off := payload(word)
	if id, ok := mixed(k, depth); ok {
		found[id] = off
	}
	for s := range 256 {
		reachable(t, t.load(t.entryAt(off, s)), k.first(depth).withByte(depth, s), depth+8, found)
	}
}

// checkIndex holds that the index leads to nodes of the structure only, and
// finds nearly all of them.
func checkIndex(t *testing.T, table *Table) {
	t.Helper()
	nodes := map[uint64]uint32{}
	for i := range uint32(1) << root6Bits {
		if word := table.load(table.root + i); isPointer(word) {
			reachable(table, word, key{hi: 2<<60 | uint64(i)<<(64-root6From-root6Bits)}, root6From+root6Bits, nodes)
		}
	}
	missing := 0
	for id, off := range nodes {
		switch at := table.indexed(id); at {
		case off:
		case 0:
			missing++
		default:
			t.Fatalf("the index leads to %d for the node at %d", at, off)
		}
	}
	entries := 0
	for at := table.root + 1<<root6Bits; at < table.root+1<<root6Bits+indexWords; at++ {
		if table.load(at) != 0 {
			entries++
		}
	}
	t.Logf("%d nodes, %d of them in the index", len(nodes), entries)
	if entries != len(nodes)-missing {
		t.Fatalf("the index has %d entries for %d nodes, %d of which it has not", entries, len(nodes), missing)
	}
	// the real table has 26,000; a made up one is more scattered, and has more than there is room for
	if 8*missing > len(nodes)+8 && len(nodes) < 3*indexWords/4 {
		t.Fatalf("%d of %d nodes are not in the index", missing, len(nodes))
	}
	if entries < min(len(nodes), indexWords)/2 {
		t.Fatalf("the index has %d entries for %d nodes", entries, len(nodes))
	}
}
