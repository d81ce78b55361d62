package dhcp4_test

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"
	"time"

	"weft/wire/dhcp4"
)

// opt is an option in parts of n bytes.
func opt(code byte, data []byte, n int) (b []byte) {
	for len(data) > 0 {
		k := min(n, len(data))
		b = append(append(b, code, byte(k)), data[:k]...)
		data = data[k:]
	}
	return b
}

func repeated(b string, n int) []byte { return bytes.Repeat([]byte(b), n) }

// bombs are options that cost much where a parser is careless.
func bombs() map[string][]byte {
	var codes []byte
	for i := range 20000 {
		codes = append(codes, byte(1+i%254), 1, 7)
	}
	list := map[string][]byte{
		"one option in parts of a byte":  opt(43, make([]byte, 20000), 1),
		"one option in parts of nothing": repeated("\x2b\x00", 30000),
		"all codes in turn":              codes,
		"padding":                        make([]byte, 60000),
		"many addresses":                 opt(6, repeated("\x01\x02\x03\x04", 15000), 255),
		"many routes":                    opt(121, repeated("\x00\x01\x02\x03\x04", 12000), 255),
		"many user classes":              opt(77, repeated("\x01a", 30000), 255),
		"many parts of a relay agent":    opt(82, repeated("\x01\x00", 30000), 255),
		"root names":                     opt(119, make([]byte, 60000), 255),
		"short names":                    opt(119, repeated("\x01a\x00", 20000), 255),
		"a pointer at itself":            opt(119, repeated("\xc0\x00", 30000), 255),
	}
	chain := []byte{0}
	for i := range 8000 {
		at := max(0, 2*i-1) // each points at the one before
		chain = append(chain, byte(0xc0|at>>8), byte(at))
	}
	list["a chain of pointers"] = opt(119, chain, 255)
	for _, c := range [][2]int{{120, 28000}, {1000, 400}, {8190, 24000}, {1, 30000}, {30000, 1}} {
		b := append(repeated("\x01a", c[0]), 0)
		list[fmt.Sprintf("names of %d labels and %d pointers", c[0], c[1])] = opt(119, append(b, repeated("\xc0\x00", c[1])...), 255)
	}
	return list
}

// Reading a message and all that engines read of it costs at most 1 ms and 1 us a byte,
// and no more memory than a few times its length, whatever it consists of.
func TestReadingCostsAtMostInProportionToTheLength(t *testing.T) {
	head := make([]byte, 240)
	head[0] = 2
	copy(head[236:], []byte{0x63, 0x82, 0x53, 0x63})
	for name, options := range bombs() {
		b := append(bytes.Clone(head), options...)
		best := time.Hour
		var allocated uint64
		for range 3 {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			begin := time.Now()
			m, err := dhcp4.Parse(b[:min(len(b), 65507)])
			if err == nil {
				o := m.Options
				o.Search()
				o.Routes()
				o.UserClasses()
				o.RelayAgent()
				o.Addresses(dhcp4.OptionDNS)
				_, _, _ = m.Marshal(dhcp4.DefaultSize)
			}
			best = min(best, time.Since(begin))
			runtime.ReadMemStats(&after)
			allocated = after.TotalAlloc - before.TotalAlloc
		}
		if most := time.Millisecond + time.Duration(len(b))*time.Microsecond; best > most {
			t.Errorf("%s (%d bytes): %s, want %s at most", name, len(b), best, most)
		}
		if most := uint64(16*len(b) + 64<<10); allocated > most {
			t.Errorf("%s (%d bytes): %d bytes allocated, want %d at most", name, len(b), allocated, most)
		}
	}
}
