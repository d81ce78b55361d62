package guard_test

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"weft/internal/feature/guard"
	"weft/internal/state"
)

func prefixes(texts ...string) (list []netip.Prefix) {
	for _, p := range texts {
		list = append(list, netip.MustParsePrefix(p))
	}
	return list
}

// says is the longest match, as the programs look it up.
func says(entries []state.GuardEntry, a netip.Addr) (said state.Listed) {
	bits := -1
	for _, e := range entries {
		if e.Prefix.Contains(a) && e.Prefix.Bits() > bits {
			said, bits = e.Listed, e.Prefix.Bits()
		}
	}
	return said
}

func TestTheListSaysWhatItsPartsSay(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	l := guard.Lists{
		Block:  &guard.Block{Prefixes: prefixes("192.0.2.0/24", "2001:db8:bad::/48"), Except: prefixes("192.0.2.64/26", "10.1.0.0/16")},
		Files:  [][]netip.Prefix{prefixes("203.0.113.7/32"), prefixes("203.0.113.7/32", "192.0.2.65/32")},
		Bogons: true,
		Blocked: []guard.Blocked{
			{Prefix: netip.MustParsePrefix("8.8.8.0/24"), Until: now.Add(time.Second)},
			{Prefix: netip.MustParsePrefix("9.9.9.0/24"), Until: now},
			{Prefix: netip.MustParsePrefix("2620:fe::/48")},
		},
	}
	entries := l.Entries(now)
	for a, want := range map[string]state.Listed{
		"192.0.2.1":        state.ListedBlocked | state.ListedBogon, // documentation, and blocked
		"192.0.2.64":       0,
		"192.0.2.65":       state.ListedBlocked,
		"203.0.113.7":      state.ListedBlocked | state.ListedBogon,
		"203.0.113.8":      state.ListedBogon,
		"10.0.0.1":         state.ListedBogon,
		"10.1.0.1":         0,
		"8.8.8.8":          state.ListedBlocked,
		"9.9.9.9":          0,
		"1.1.1.1":          0,
		"192.0.0.8":        state.ListedBogon,
		"192.0.0.9":        0,
		"224.0.0.1":        state.ListedBogon,
		"2001:db8:bad::1":  state.ListedBlocked | state.ListedBogon,
		"2001:db8::1":      state.ListedBogon,
		"2001::1":          0,
		"2001:4:112::1":    0,
		"2001:2::1":        state.ListedBogon,
		"64:ff9b::808:808": 0,
		"64:ff9b:1::1":     state.ListedBogon,
		"2620:fe::fe":      state.ListedBlocked,
		"2a00::1":          0,
		"fd00::1":          state.ListedBogon,
		"::1":              state.ListedBogon,
	} {
		if got := says(entries, netip.MustParseAddr(a)); got != want {
			t.Errorf("%s is %s, want %s", a, got, want)
		}
	}
}

// Random lists over few bits, so that prefixes lie within each other.
func TestRandomListsSayWhatTheirPartsSay(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	some := func(n int) (list []netip.Prefix) {
		for range rng.IntN(n) {
			a := netip.AddrFrom4([4]byte{100, 0, 0, byte(rng.IntN(256))})
			list = append(list, netip.PrefixFrom(a, 24+rng.IntN(9)).Masked())
		}
		return list
	}
	for range 500 {
		block, except := some(8), some(4)
		block = slices.DeleteFunc(block, func(p netip.Prefix) bool { return slices.Contains(except, p) })
		l := guard.Lists{Block: &guard.Block{Prefixes: block, Except: except}}
		entries := l.Entries(time.Time{})
		for i := range 256 {
			a := netip.AddrFrom4([4]byte{100, 0, 0, byte(i)})
			var want state.Listed
			for bits := 0; bits <= 32; bits++ {
				p, _ := a.Prefix(bits)
				if slices.Contains(block, p) {
					want = state.ListedBlocked
				}
				if slices.Contains(except, p) {
					want = 0
				}
			}
			if got := says(entries, a); got != want {
				t.Fatalf("blocked %v except %v: %s is %s, want %s", block, except, a, got, want)
			}
		}
		other := guard.Lists{Block: &guard.Block{Prefixes: some(8)}}.Entries(time.Time{})
		put, gone := guard.Changes(entries, other)
		changed := map[netip.Prefix]state.Listed{}
		for _, e := range entries {
			changed[e.Prefix] = e.Listed
		}
		for _, e := range put {
			changed[e.Prefix] = e.Listed
		}
		for _, p := range gone {
			delete(changed, p)
		}
		if len(changed) != len(other) {
			t.Fatalf("%v to %v: put %v, gone %v", entries, other, put, gone)
		}
		for _, e := range other {
			if listed, ok := changed[e.Prefix]; !ok || listed != e.Listed {
				t.Fatalf("%v to %v: put %v, gone %v", entries, other, put, gone)
			}
		}
	}
}

func TestFilesOfPrefixes(t *testing.T) {
	got, err := guard.ReadFile("list", strings.NewReader("# a comment\n192.0.2.1\n\n 198.51.100.7/24 ; SBL1\n2001:db8::1/32 # v6\r\n::ffff:203.0.113.5\n"))
	want := prefixes("192.0.2.1/32", "198.51.100.0/24", "2001:db8::/32", "203.0.113.5/32")
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for text, says := range map[string]string{
		"192.0.2.1\nexample.net\n":      `list:2:1: "example.net" is neither an address nor a prefix; write it like 192.0.2.1 or 2001:db8::/32, or put # before it`,
		"  192.0.2.0/33":                `list:1:3: "192.0.2.0/33" is neither an address nor a prefix; write it like 192.0.2.1 or 2001:db8::/32, or put # before it`,
		"fe80::1%eth0":                  `list:1:1: "fe80::1%eth0" has a zone; a source is blocked on all interfaces; write it without %eth0`,
		"0.0.0.0/0":                     `list:1:1: 0.0.0.0/0 contains all addresses; remove the line, or write a longer prefix`,
		"::/0\nx\n192.0.2.1":            `list:1:1: ::/0 contains all addresses; remove the line, or write a longer prefix (and 1 more such lines: weft check lists them)`,
		"192.0.2.1, 192.0.2.2":          `list:1:1: "192.0.2.1, 192.0.2.2" has more than one word; write one address or prefix per line, and comments behind #`,
		"192.0.2.1-192.0.2.9":           `list:1:1: "192.0.2.1-192.0.2.9" is a range; write its prefixes, one per line`,
		"192.0.2.0/255.255.255.0":       `list:1:1: "192.0.2.0/255.255.255.0" has a mask; write the length of the prefix, like 192.0.2.0/24`,
		"<!doctype html><html lang=en>": `list:1:1: "<!doctype html><html lang=en>" has more than one word; write one address or prefix per line, and comments behind #`,
	} {
		if _, err := guard.ReadFile("list", strings.NewReader(text)); err == nil || err.Error() != says {
			t.Errorf("%q: %v", text, err)
		}
	}
	// what is right is given all the same
	got, err = guard.ReadFile("list", strings.NewReader("192.0.2.1\nwrong\n198.51.100.0/24\n"))
	if err == nil || !slices.Equal(got, prefixes("192.0.2.1/32", "198.51.100.0/24")) {
		t.Errorf("%v, %v", got, err)
	}
}

func FuzzReadFile(f *testing.F) {
	f.Add("192.0.2.0/24\n# x\n::/0;\n")
	f.Fuzz(func(t *testing.T, text string) {
		list, _ := guard.ReadFile("list", strings.NewReader(text))
		for _, p := range list {
			if !p.IsValid() || p != p.Masked() || p.Bits() == 0 {
				t.Errorf("%q gave %v", text, p)
			}
		}
	})
}
