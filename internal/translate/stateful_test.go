package translate

import (
	"net/netip"
	"testing"

	"weft/internal/state"
	"weft/wire/checksum"
)

// mirror is a state in which every port stands for itself.
type mirror struct{}

func (mirror) Resolve(t state.Tuple) (state.Tuple, state.Outcome) {
	if t.From.Addr().Is6() {
		to, _ := Extract(netip.MustParsePrefix("64:ff9b:1::/96"), t.To.Addr())
		t.From, t.To = netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), ^t.From.Port()), netip.AddrPortFrom(to, t.To.Port())
		return t, state.OutcomeNone
	}
	t.From = netip.AddrPortFrom(Embed(netip.MustParsePrefix("64:ff9b:1::/96"), t.From.Addr()), t.From.Port())
	t.To = netip.AddrPortFrom(netip.MustParseAddr("2001:db8::7"), ^t.To.Port())
	return t, state.OutcomeNone
}

func (mirror) Session(_ uint8, pool, remote netip.AddrPort) (client, remote6 netip.AddrPort, ok bool) {
	far := Embed(netip.MustParsePrefix("64:ff9b:1::/96"), remote.Addr())
	return netip.AddrPortFrom(netip.MustParseAddr("2001:db8::7"), ^pool.Port()), netip.AddrPortFrom(far, remote.Port()), true
}

func (mirror) Binding(_ uint8, client, _, _ netip.AddrPort) (netip.AddrPort, bool) {
	return netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), ^client.Port()), true
}

// Whatever comes, what leaves is a packet whose lengths are right, and the
// input is as it was.
func FuzzStateful(f *testing.F) {
	udp6 := []byte{0x60, 0, 0, 0, 0, 12, 17, 64, 15: 0x20, 23: 7, 24: 0, 25: 0x64, 26: 0xff, 27: 0x9b, 28: 0, 29: 1, 36: 8, 37: 8, 38: 8, 39: 8, 40: 1, 41: 2, 42: 0, 43: 53, 44: 0, 45: 12, 46: 1, 47: 1, 51: 9}
	udp6[8], udp6[9], udp6[10], udp6[11] = 0x20, 0x01, 0x0d, 0xb8
	udp4 := []byte{0x45, 0, 0, 32, 0, 1, 0, 0, 64, 17, 0x68, 0xd2, 8, 8, 8, 8, 192, 0, 2, 1, 0, 53, 1, 2, 0, 12, 1, 1, 1, 2, 3, 4}
	error4 := append([]byte{0x45, 0, 0, 60, 0, 1, 0, 0, 64, 1, 0, 0, 7, 7, 7, 7, 192, 0, 2, 1, 3, 1, 0, 0, 0, 0, 0, 0}, udp4...)
	error6 := append([]byte{0x60, 0, 0, 0, 0, 60, 58, 64, 8: 0x20, 9: 1, 10: 0x0d, 11: 0xb8, 23: 9, 24: 0, 25: 0x64, 26: 0xff, 27: 0x9b, 29: 1, 36: 8, 37: 8, 38: 8, 39: 8, 40: 1, 41: 0, 47: 0}, udp6...)
	fragment := append([]byte{}, udp4...)
	fragment[6] = 0x20
	for _, seed := range [][]byte{udp6, udp4, error4, error6, fragment} {
		f.Add(seed)
	}
	c := &Config{Table: NewTable(netip.MustParsePrefix("64:ff9b:1::/96"), nil), Router4: netip.MustParseAddr("198.51.100.1"), Router6: netip.MustParseAddr("2001:db8::1"), MTU4: 1500, MTU6: 1500, ComputeUDPZero: true}
	s := &Stateful{Bindings: mirror{}, Parts: NewReassembler()}
	var now int64
	f.Fuzz(func(t *testing.T, pkt []byte) {
		if len(pkt) == 0 {
			return
		}
		now += 1e6
		before := string(pkt)
		var r Result
		if pkt[0]>>4 == 4 {
			r = s.Translate4(c, now, pkt)
		} else {
			r = s.Translate6(c, now, pkt)
		}
		if string(pkt) != before {
			t.Errorf("the input was changed to %x", pkt)
		}
		for _, out := range r.Out {
			switch {
			case out[0]>>4 == 4 && (len(out) != int(get16(out[2:])) || checksum.Sum(out[:20], 0) != 0xffff):
				t.Errorf("%x is no IPv4 packet", out)
			case out[0]>>4 == 6 && len(out) != 40+int(get16(out[4:])):
				t.Errorf("%x is no IPv6 packet", out)
			}
		}
		if err := s.Parts.sound(); err != nil {
			t.Error(err)
		}
	})
}
