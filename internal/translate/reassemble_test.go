package translate

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"weft/internal/state"
)

// options6 is a Destination Options header of n bytes, all padding.
func options6(next byte, n int) []byte {
	h := make([]byte, n)
	h[0], h[1], h[2], h[3] = next, byte(n/8-1), 1, byte(n-4)
	return h
}

// part6 is a fragment of a UDP datagram of 2001:db8::7, with extension headers of
// so many bytes before the fragment header.
func part6(id uint32, next byte, extra, offset int, more bool, data []byte) []byte {
	pkt := make([]byte, header6Len, header6Len+extra+fragmentLen+len(data))
	pkt[0], pkt[6], pkt[7] = 0x60, headerFragment, 64
	put16(pkt[4:], uint16(extra+fragmentLen+len(data)))
	src, dst := netip.MustParseAddr("2001:db8::7").As16(), netip.MustParseAddr("64:ff9b:1::8.8.8.8").As16()
	copy(pkt[8:], src[:])
	copy(pkt[24:], dst[:])
	if extra > 0 {
		pkt[6] = headerDestOptions
		pkt = append(pkt, options6(headerFragment, extra)...)
	}
	word := uint16(offset)
	if more {
		word |= 1
	}
	pkt = append(pkt, next, 0)
	pkt = binary.BigEndian.AppendUint16(pkt, word)
	pkt = binary.BigEndian.AppendUint32(pkt, id)
	return append(pkt, data...)
}

func count(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + 1)
	}
	return b
}

// Fragments may have different headers before the fragment header, and different Next
// Header fields in it: those of the first one count (RFC 8200 section 4.5).
func TestFragmentsWithDifferentHeadersBeforeThem(t *testing.T) {
	data := count(48)
	for _, c := range []struct {
		name        string
		first, last int  // bytes of extension headers
		backwards   bool // the last one comes first
		next        byte // in the last fragment
	}{
		{"as it should be", 0, 0, false, protocolUDP},
		{"longer in the last", 0, 64, false, protocolUDP},
		{"much longer in the last", 0, 2040, false, protocolUDP},
		{"longer in the first", 64, 0, false, protocolUDP},
		{"a little longer in the last, whose payload is inside", 0, 16, false, protocolUDP},
		{"longer in the last, which comes first", 0, 64, true, protocolUDP},
		{"longer in the first, which comes last", 64, 8, true, protocolUDP},
		{"another protocol in the last", 0, 0, false, protocolTCP},
		{"another protocol in the last, which comes first", 8, 16, true, 253},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := NewReassembler()
			parts := [][]byte{part6(9, protocolUDP, c.first, 0, true, data[:16]), part6(9, c.next, c.last, 16, false, data[16:])}
			if c.backwards {
				parts[0], parts[1] = parts[1], parts[0]
			}
			for i, p := range parts {
				ch, o := follow(p)
				if o != state.OutcomeNone {
					t.Fatal(o)
				}
				whole, o := r.whole6(1, p, ch)
				if i == 0 {
					if whole != nil || o != state.SlowFragment {
						t.Fatalf("the first to come met %s", o)
					}
					continue
				}
				if want := part6(9, protocolUDP, c.first, 0, false, data); !bytes.Equal(whole, want) {
					t.Errorf("%s: got\n%x, want\n%x", o, whole, want)
				}
			}
		})
	}
}

// Packets that say that they are fragments and are whole are processed alone
// (RFC 6946), whatever is held under their identification.
func TestAtomicFragmentsAreNobodysPart(t *testing.T) {
	r := NewReassembler()
	held := part6(9, protocolUDP, 0, 0, true, count(16))
	atomic := part6(9, protocolUDP, 8, 0, false, count(24))
	for i, p := range [][]byte{held, atomic, part6(9, protocolUDP, 0, 16, false, count(8))} {
		ch, _ := follow(p)
		whole, o := r.whole6(1, p, ch)
		switch {
		case i == 1 && !bytes.Equal(whole, atomic):
			t.Errorf("the atomic fragment met %s", o)
		case i == 2 && len(whole) != header6Len+fragmentLen+24:
			t.Errorf("what was held is not complete any more: %s", o)
		}
	}
}

// What fragments cannot say is refused, and what was there of the datagram goes where
// RFC 8200 section 4.5 and RFC 5722 say so.
func TestFragmentsThatAreRefused(t *testing.T) {
	add := func(r *Reassembler, offset int, more bool, n int) state.Outcome {
		p := part6(9, protocolUDP, 0, offset, more, count(n))
		ch, o := follow(p)
		if o != state.OutcomeNone {
			return o
		}
		_, o = r.whole6(1, p, ch)
		return o
	}
	type one struct {
		offset int
		more   bool
		n      int
		want   state.Outcome
	}
	for name, parts := range map[string][]one{
		"without data, first":         {{0, true, 0, state.DropBadHeader}},
		"without data, in the middle": {{0, true, 8, state.SlowFragment}, {8, true, 0, state.DropBadHeader}, {8, false, 8, state.OutcomeNone}},
		"without data, last":          {{0, true, 8, state.SlowFragment}, {8, false, 0, state.DropBadHeader}},
		"no multiple of eight":        {{0, true, 12, state.DropBadHeader}},
		"the first overlaps":          {{0, true, 16, state.SlowFragment}, {8, false, 16, state.DropReassembly}, {16, false, 8, state.SlowFragment}},
		"inside another":              {{0, true, 64, state.SlowFragment}, {8, true, 8, state.DropReassembly}},
		"around another":              {{8, true, 8, state.SlowFragment}, {0, true, 64, state.DropReassembly}},
		"beyond the last":             {{8, false, 8, state.SlowFragment}, {16, true, 8, state.DropReassembly}},
		"two that are last":           {{8, false, 8, state.SlowFragment}, {16, false, 8, state.DropReassembly}},
		"a last one before others":    {{16, true, 8, state.SlowFragment}, {0, false, 8, state.OutcomeNone}}, // atomic
		"the last one inside":         {{16, true, 8, state.SlowFragment}, {8, false, 8, state.DropReassembly}},
		"beyond the largest packet":   {{65528, true, 8, state.DropBadHeader}},
		"too large with its headers":  {{65504, false, 8, state.SlowFragment}, {0, true, 65504 - 40 - 8, state.SlowFragment}, {65504 - 48, true, 48, state.DropReassembly}},
	} {
		r := NewReassembler()
		for i, p := range parts {
			if o := add(r, p.offset, p.more, p.n); o != p.want {
				t.Errorf("%s: part %d met %s, want %s", name, i, o, p.want)
			}
		}
		if err := r.sound(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// sound fails if what is held does not add up, or is beyond its bounds.
func (r *Reassembler) sound() error {
	sum := 0
	for _, d := range r.held {
		if len(d.parts) > partsMost {
			return fmt.Errorf("a datagram of %d parts", len(d.parts))
		}
		n := 0
		for _, p := range d.parts {
			n += len(p.data)
		}
		if n != d.bytes {
			return fmt.Errorf("a datagram of %d bytes says %d", n, d.bytes)
		}
		sum += n + len(d.parts)*partCost
	}
	if sum != r.all.bytes || len(r.held) != r.all.order.Len() || r.all.beyond(1) {
		return fmt.Errorf("%d bytes in %d datagrams are held, it says %d in %d", sum, len(r.held), r.all.bytes, r.all.order.Len())
	}
	for p, h := range r.sources {
		share := 4
		if p.Bits() == 64 {
			share = 2
		}
		if h.beyond(share) || h.order.Len() == 0 {
			return fmt.Errorf("%s holds %d bytes in %d datagrams", p, h.bytes, h.order.Len())
		}
	}
	return nil
}

// A flood of fragments that never become whole leaves room for other sources, and is
// bounded in memory and time whatever it consists of.
func TestAFloodOfFragmentsLeavesRoomForOthers(t *testing.T) {
	victim := netip.MustParseAddr("2001:db8:f::1")
	far := netip.MustParseAddr("64:ff9b:1::8.8.8.8")
	floods := map[string]func(i int) (datagramKey, fragment, int){
		"many datagrams of one host": func(i int) (datagramKey, fragment, int) {
			return datagramKey{netip.MustParseAddr("2001:db8:a::1"), far, uint32(i), 0}, fragment{present: true, more: true}, 8
		},
		"large ones of one host": func(i int) (datagramKey, fragment, int) {
			return datagramKey{netip.MustParseAddr("2001:db8:a::1"), far, uint32(i), 0}, fragment{present: true, more: true}, 60000
		},
		"all addresses of a /64": func(i int) (datagramKey, fragment, int) {
			a := netip.MustParseAddr("2001:db8:a::1").As16()
			binary.BigEndian.PutUint32(a[12:], uint32(i))
			return datagramKey{netip.AddrFrom16(a), far, 1, 0}, fragment{present: true, more: true}, 8
		},
		"small parts of one datagram": func(i int) (datagramKey, fragment, int) {
			return datagramKey{netip.MustParseAddr("2001:db8:a::1"), far, 1, 0}, fragment{present: true, more: true, offset: i % 8000 * 8}, 8
		},
		"from the last to the first": func(i int) (datagramKey, fragment, int) {
			return datagramKey{netip.MustParseAddr("2001:db8:a::1"), far, 1, 0}, fragment{present: true, more: true, offset: (8000 - i%8000) * 8}, 8
		},
		"without data": func(int) (datagramKey, fragment, int) {
			return datagramKey{netip.MustParseAddr("2001:db8:a::1"), far, 1, 0}, fragment{present: true, more: true, offset: 8}, 0
		},
		"of one IPv4 host": func(i int) (datagramKey, fragment, int) {
			return datagramKey{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("198.51.100.1"), uint32(i), 17}, fragment{present: true, more: true}, 1480
		},
	}
	zeros := make([]byte, 65536)
	for name, flood := range floods {
		r := NewReassembler()
		head := part6(1, protocolUDP, 0, 0, true, nil)
		const n = 20000
		begin := time.Now()
		for i := range n {
			if i%1000 == 0 { // a fragment of another packet, whose last one comes 900 later
				if _, _, o := r.Add(int64(i), datagramKey{victim, far, uint32(i), 0}, head, fragment{present: true, more: true}, zeros[:1232]); o != state.SlowFragment {
					t.Fatalf("%s: another host's fragment met %s", name, o)
				}
			}
			key, frag, size := flood(i)
			r.Add(int64(i), key, head, frag, zeros[:size])
			if i%1000 == 900 {
				if whole, _, o := r.Add(int64(i), datagramKey{victim, far, uint32(i - 900), 0}, head, fragment{present: true, offset: 1232}, zeros[:8]); whole == nil {
					t.Fatalf("%s: another host's last fragment met %s", name, o)
				}
			}
			if i%97 == 0 {
				if err := r.sound(); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
		}
		if per := time.Since(begin) / n; per > 200*time.Microsecond {
			t.Errorf("%s: %s for a fragment", name, per)
		}
	}
}

// sequence reads fragments out of bytes, and compares what becomes of them with a model
// that knows nothing of parts: one array of bytes for each datagram.
func sequence(in []byte) error {
	type model struct {
		data  [65536]byte
		there [65536]bool
		extra int
		first bool
		total int
	}
	r := NewReassembler()
	models := map[uint32]*model{}
	for i := 0; len(in) >= 5; i++ {
		id, extra, offset, n, more := uint32(in[0]&3), int(in[0]>>2&7)*8, int(in[1])*8, int(in[2]), in[3]&1 != 0
		n += int(in[3]>>1&1) * 8 * int(in[4])
		in = in[5:]
		data := count(n)
		p := part6(id, protocolUDP, extra, offset, more, data)
		ch, o := follow(p)
		if o != state.OutcomeNone {
			return fmt.Errorf("step %d: %s", i, o)
		}
		got, o := r.whole6(int64(i), p, ch)
		if err := r.sound(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
		if offset == 0 && !more || n == 0 || more && n%8 != 0 {
			continue
		}
		m := models[id]
		if m == nil {
			m = &model{total: -1}
			models[id] = m
		}
		bad := m.total >= 0 && (offset+n > m.total || !more && offset+n != m.total)
		for at := offset; at < offset+n; at++ {
			bad = bad || m.there[at]
			m.there[at], m.data[at] = true, data[at-offset]
		}
		for at := offset + n; !more && at < len(m.there); at++ {
			bad = bad || m.there[at]
		}
		if bad || o == state.DropReassembly {
			if !bad && len(r.held) > 0 && r.held[datagramKey{src6(p), dst6(p), id, 0}] != nil {
				return fmt.Errorf("step %d: dropped, and it is still held", i)
			}
			if bad && o != state.DropReassembly {
				return fmt.Errorf("step %d: an overlap met %s", i, o)
			}
			delete(models, id)
			continue
		}
		if !more {
			m.total = offset + n
		}
		if offset == 0 {
			m.first, m.extra = true, extra
		}
		complete := m.total >= 0 && m.first
		for at := range max(m.total, 0) {
			complete = complete && m.there[at]
		}
		if complete != (got != nil) {
			return fmt.Errorf("step %d: complete is %v, got %d bytes, %s", i, complete, len(got), o)
		}
		if complete {
			if want := part6(id, protocolUDP, m.extra, 0, false, m.data[:m.total]); !bytes.Equal(got, want) {
				return fmt.Errorf("step %d: got\n%x, want\n%x", i, got, want)
			}
			delete(models, id)
		}
	}
	return nil
}

func FuzzReassembly(f *testing.F) {
	f.Add([]byte{0, 0, 8, 1, 0, 8<<2 - 4, 1, 8, 0, 0})
	f.Add([]byte{1, 1, 8, 0, 0, 1, 0, 8, 1, 0})
	f.Add([]byte{2, 0, 8, 1, 0, 2, 0, 8, 1, 0, 2, 1, 8, 0, 0})
	f.Add([]byte{3, 0, 0, 3, 4, 3 | 7<<2, 4, 5, 0, 0})
	f.Fuzz(func(t *testing.T, in []byte) {
		if err := sequence(in[:min(len(in), 500)]); err != nil {
			t.Error(err)
		}
	})
}
