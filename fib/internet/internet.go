// Package internet reads lists of prefixes and, where no real one is at hand,
// makes up tables of the size and shape of the Internet's.
package internet

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
)

// Table is the prefixes of a full table, each once, without host bits.
type Table struct {
	IPv4, IPv6 []netip.Prefix
}

// Read takes a list of prefixes, one a line, gzipped or not. Empty lines and
// lines that start with # do not count.
func Read(r io.Reader) (Table, error) {
	var t Table
	in := bufio.NewReader(r)
	if head, _ := in.Peek(2); bytes.Equal(head, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(in)
		if err != nil {
			return t, fmt.Errorf("unpack the list of prefixes: %w", err)
		}
		in = bufio.NewReader(z)
	}
	lines := bufio.NewScanner(in)
	for n := 1; lines.Scan(); n++ {
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 || text[0] == '#' {
			continue
		}
		p, err := netip.ParsePrefix(string(text))
		if err != nil {
			return t, fmt.Errorf("read the list of prefixes: line %d: %w", n, err)
		}
		t.add(p.Masked())
	}
	if err := lines.Err(); err != nil {
		return t, fmt.Errorf("read the list of prefixes: %w", err)
	}
	return t, nil
}

func (t *Table) add(p netip.Prefix) {
	if p.Addr().Is4() {
		t.IPv4 = append(t.IPv4, p)
	} else {
		t.IPv6 = append(t.IPv6, p)
	}
}

// How many prefixes of each length the full table of March 2024 has.
var (
	lengths4 = map[int]int{8: 16, 9: 13, 10: 38, 11: 103, 12: 299, 13: 581, 14: 1203, 15: 2100,
		16: 13490, 17: 8235, 18: 13798, 19: 24870, 20: 42611, 21: 50750, 22: 108623, 23: 96510,
		24: 537698, 25: 20, 26: 3, 27: 11, 28: 18, 29: 17, 30: 3, 31: 3, 32: 886}
	lengths6 = map[int]int{16: 1, 19: 1, 20: 16, 21: 3, 22: 7, 23: 8, 24: 30, 25: 8, 26: 15, 27: 20,
		28: 193, 29: 4371, 30: 650, 31: 284, 32: 22548, 33: 2926, 34: 2603, 35: 1043, 36: 5996,
		37: 880, 38: 1617, 39: 1377, 40: 13418, 41: 903, 42: 2301, 43: 1001, 44: 14365, 45: 1553,
		46: 3039, 47: 3153, 48: 75488, 49: 11, 50: 3, 52: 1, 55: 1, 56: 24, 58: 20, 60: 2, 64: 184,
		112: 2, 122: 1, 124: 4, 125: 9, 126: 19, 127: 42, 128: 6}
)

// Made up tables put this part of their prefixes inside of shorter ones, near
// what the real table does.
const nested = 0.55

// Generate makes up a table with the real one's number of prefixes of each
// length, divided by scale. Where they lie is random.
func Generate(rng *rand.Rand, scale int) Table {
	return Table{
		IPv4: generate(rng, lengths4, 32, scale, func() netip.Addr {
			var b [4]byte
			binary.BigEndian.PutUint32(b[:], rng.Uint32())
			b[0] = 1 + b[0]%223
			return netip.AddrFrom4(b)
		}),
		IPv6: generate(rng, lengths6, 128, scale, func() netip.Addr {
			var b [16]byte
			binary.BigEndian.PutUint64(b[:], rng.Uint64())
			binary.BigEndian.PutUint64(b[8:], rng.Uint64())
			registries := [...]uint16{0x2001, 0x2400, 0x2600, 0x2800, 0x2a00, 0x2c00}
			top := registries[rng.IntN(len(registries))]
			if top != 0x2001 {
				top |= uint16(rng.IntN(16))
			}
			binary.BigEndian.PutUint16(b[:], top)
			return netip.AddrFrom16(b)
		}),
	}
}

func generate(rng *rand.Rand, lengths map[int]int, width, scale int, place func() netip.Addr) []netip.Prefix {
	var out []netip.Prefix
	seen := map[netip.Prefix]bool{}
	for length := range width + 1 {
		want := lengths[length] / scale
		shorter := len(out)
		for tries := 0; want > 0 && tries < 1<<22; tries++ {
			a := place()
			if shorter > 0 && rng.Float64() < nested {
				a = inside(out[rng.IntN(shorter)], a)
			}
			p := netip.PrefixFrom(a, length).Masked()
			if seen[p] {
				continue
			}
			seen[p] = true
			out = append(out, p)
			want--
		}
	}
	return out
}

// inside keeps the prefix's bits and takes the others from a.
func inside(p netip.Prefix, a netip.Addr) netip.Addr {
	high, low := p.Addr().As16(), a.As16()
	first := p.Bits()
	if a.Is4() {
		first += 96
	}
	for i := range low {
		keep := min(max(first-8*i, 0), 8)
		mask := byte(0xff << (8 - keep))
		low[i] = high[i]&mask | low[i]&^mask
	}
	out := netip.AddrFrom16(low)
	if a.Is4() {
		out = out.Unmap()
	}
	return out
}
