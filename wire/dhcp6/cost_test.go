package dhcp6_test

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"testing"
	"time"

	"weft/wire/dhcp6"
)

func opt(code int, data []byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(code))
	return append(binary.BigEndian.AppendUint16(b, uint16(len(data))), data...)
}

// pointers is a name of so many labels, and pointers to its beginning.
func pointers(labels, n int) (b []byte) {
	for range labels {
		b = append(b, 1, 'a')
	}
	b = append(b, 0)
	for range n {
		b = append(b, 0xc0, 0)
	}
	return b
}

// nested is identity associations within each other.
func nested(depth int) []byte {
	b := opt(13, []byte{0, 0})
	for range depth {
		b = opt(3, append(make([]byte, 12), b...))
	}
	return b
}

func repeated(b []byte, n int) (list []byte) {
	for range n {
		list = append(list, b...)
	}
	return list
}

// bombs are messages that cost much where a parser is careless.
func bombs() map[string][]byte {
	lease := opt(5, make([]byte, 24))
	list := map[string][]byte{
		"many identity associations":      repeated(opt(3, make([]byte, 12)), 4000),
		"many leases":                     opt(3, append(make([]byte, 12), repeated(lease, 2000)...)),
		"many leases in prefixes":         opt(25, append(make([]byte, 12), repeated(opt(26, make([]byte, 25)), 2000)...)),
		"nested":                          nested(2000),
		"many options":                    repeated(opt(999, nil), 16000),
		"many options, all status":        repeated(opt(13, []byte{0, 0}), 10000),
		"many asked for":                  opt(6, make([]byte, 65000)),
		"many lists of what is asked for": repeated(opt(6, make([]byte, 512)), 120),
		"many DNS servers":                opt(23, make([]byte, 64000)),
		"root names":                      opt(24, make([]byte, 65000)),
		"short names":                     opt(24, repeated([]byte{1, 'a', 0}, 20000)),
		"a long portal":                   opt(103, make([]byte, 65000)),
	}
	for _, code := range []int{24, 39, 56, 64, 33, 21, 58} { // whatever has names
		for _, c := range [][2]int{{1000, 400}, {8190, 24000}, {1, 32000}, {32000, 1}, {127, 30000}} {
			list[fmt.Sprintf("option %d with %d labels and %d pointers", code, c[0], c[1])] = opt(code, pointers(c[0], c[1]))
		}
		list[fmt.Sprintf("option %d that points at itself", code)] = opt(code, repeated([]byte{0xc0, 0}, 30000))
	}
	return list
}

// Reading a message costs at most 1 ms and 1 us a byte, and no more memory than a few
// times its length, whatever it consists of.
func TestReadingCostsAtMostInProportionToTheLength(t *testing.T) {
	for name, b := range bombs() {
		for _, kind := range []byte{1, 7} {
			m := append([]byte{kind, 1, 2, 3}, b...)
			best := time.Hour
			var allocated uint64
			for range 3 {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				begin := time.Now()
				_, _ = dhcp6.Parse(m)
				best = min(best, time.Since(begin))
				runtime.ReadMemStats(&after)
				allocated = after.TotalAlloc - before.TotalAlloc
			}
			if most := time.Millisecond + time.Duration(len(m))*time.Microsecond; best > most {
				t.Errorf("%s (%d bytes): %s, want %s at most", name, len(m), best, most)
			}
			if most := uint64(16*len(m) + 64<<10); allocated > most {
				t.Errorf("%s (%d bytes): %d bytes allocated, want %d at most", name, len(m), allocated, most)
			}
		}
	}
}

// What is beyond a bound is refused or passed over, and never makes the rest unreadable
// that a server needs.
func TestBoundsOfAMessage(t *testing.T) {
	id := opt(1, []byte{0, 3, 0, 1, 2})
	ia := opt(3, make([]byte, 12))
	for name, c := range map[string]struct {
		b       []byte
		refused bool
	}{
		"an identifier of 130 bytes":           {opt(1, make([]byte, 130)), false},
		"an identifier of 131 bytes":           {opt(1, make([]byte, 131)), true},
		"an identifier of its type alone":      {opt(1, make([]byte, 2)), true},
		"32 identity associations":             {repeated(ia, 32), false},
		"33 identity associations":             {repeated(ia, 33), true},
		"an identity association cut off":      {opt(3, make([]byte, 11)), true},
		"an address cut off":                   {opt(3, append(make([]byte, 12), opt(5, make([]byte, 23))...)), true},
		"a prefix longer than an address":      {opt(25, append(make([]byte, 12), opt(26, append(append(make([]byte, 8), 129), make([]byte, 16)...))...)), true},
		"256 options":                          {repeated(opt(999, nil), 255), false},
		"257 options":                          {repeated(opt(999, nil), 256), true},
		"an option longer than the message":    {[]byte{0, 6, 0, 9, 0}, true},
		"a search list with pointers":          {opt(24, pointers(1, 1)), false},
		"a search list whose name has no end":  {opt(24, []byte{3, 'a', 'b', 'c'}), false},
		"a search list with a name of 256":     {opt(24, pointers(128, 0)), false},
		"three bytes of an address of servers": {opt(23, make([]byte, 3)), true},
		"an odd list of what is asked for":     {opt(6, make([]byte, 3)), true},
		"no status code":                       {opt(13, make([]byte, 1)), true},
	} {
		m, err := dhcp6.Parse(append(append([]byte{1, 1, 2, 3}, c.b...), id...))
		switch {
		case (err != nil) != c.refused:
			t.Errorf("%s: %v", name, err)
		case err == nil && (m.ClientID == nil || len(m.Search) > 0):
			t.Errorf("%s: %+v", name, m)
		}
	}
	m, err := dhcp6.Parse(append([]byte{7, 1, 2, 3}, opt(24, append(pointers(127, 0), 3, 'n', 'e', 't', 0))...))
	if err != nil || len(m.Search) != 2 || len(m.Search[0]) != 253 || m.Search[1] != "net" {
		t.Errorf("the longest name: %+v, %v", m, err)
	}
}
