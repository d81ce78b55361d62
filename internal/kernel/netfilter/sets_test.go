package netfilter

import (
	"fmt"
	"net/netip"
	"testing"
)

func TestSetsOfAddresses(t *testing.T) {
	set := func(kind, flags, elements string) string {
		return `{"nftables":[{"metainfo":{"version":"1.0.6"}},{"set":{"family":"inet","name":"s","table":"t","type":` + kind + `,"handle":1` + flags + `,"elem":[` + elements + `]}}]}`
	}
	for _, tt := range []struct {
		text, want string
		silent     bool
	}{
		{set(`"ipv4_addr"`, ``, `"192.0.2.1","192.0.2.2"`), "[192.0.2.1/32 192.0.2.2/32]", false},
		{set(`"ipv4_addr"`, `,"flags":["interval"]`, `{"prefix":{"addr":"192.0.2.0","len":24}},{"range":["10.0.0.1","10.0.0.6"]}`), "[192.0.2.0/24 10.0.0.1/32 10.0.0.2/31 10.0.0.4/31 10.0.0.6/32]", false},
		{set(`"ipv6_addr"`, `,"flags":["timeout"]`, `{"elem":{"val":"2001:db8::1","timeout":60,"expires":12}}`), "[2001:db8::1/128]", true},
		{set(`"ipv4_addr"`, `,"flags":["interval"]`, `{"range":["0.0.0.0","255.255.255.255"]}`), "[0.0.0.0/0]", false},
		{set(`"ipv6_addr"`, ``, `{"range":["2001:db8::ffff","2001:db8::1:0"]}`), "[2001:db8::ffff/128 2001:db8::1:0/128]", false},
		{set(`"inet_service"`, ``, `22`), "its elements are inet_service, not addresses", false},
		{set(`["ipv4_addr","inet_service"]`, ``, `{"concat":["192.0.2.1",22]}`), "its elements are [ipv4_addr inet_service], not addresses", false},
		{set(`"ipv4_addr"`, ``, `{"range":["10.0.0.6","10.0.0.1"]}`), "10.0.0.6-10.0.0.1 is no range", false},
		{`{"nftables":[]}`, "nft says nothing of it", false},
	} {
		s, err := parseAddressSet([]byte(tt.text))
		got := fmt.Sprint(s.Prefixes)
		if err != nil {
			got = err.Error()
		}
		if got != tt.want || s.Silent != tt.silent {
			t.Errorf("%s: %s, silent %v", tt.text, got, s.Silent)
		}
	}
}

func FuzzAddressSet(f *testing.F) {
	f.Add([]byte(`{"nftables":[{"set":{"type":"ipv4_addr","elem":["192.0.2.1",{"range":["10.0.0.1","10.0.0.6"]}]}}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := parseAddressSet(b)
		if err != nil {
			return
		}
		for _, p := range s.Prefixes {
			if !p.IsValid() || p != p.Masked() && p.Bits() != p.Addr().BitLen() {
				t.Errorf("%s", p)
			}
		}
	})
}

// Every address of a range is in one of its prefixes, and no other.
func TestRangesAsPrefixes(t *testing.T) {
	base := netip.MustParseAddr("192.0.2.0").As4()
	for first := range 64 {
		for last := first; last < 64; last++ {
			a, b := base, base
			a[3], b[3] = byte(first), byte(last)
			covered := 0
			for _, p := range prefixesOf(netip.AddrFrom4(a), netip.AddrFrom4(b)) {
				covered += 1 << (32 - p.Bits())
				if p.Addr().Less(netip.AddrFrom4(a)) || netip.AddrFrom4(b).Less(lastOf(p)) {
					t.Errorf("%d-%d: %s", first, last, p)
				}
			}
			if covered != last-first+1 {
				t.Errorf("%d-%d: %d addresses", first, last, covered)
			}
		}
	}
}
