package trace

import (
	"testing"

	"weft/wire/l2tp"
	"weft/wire/ppp"
)

// FuzzDescribe: any packet is described in one line, one inside a tunnel too.
func FuzzDescribe(f *testing.F) {
	f.Add(false, l2tp.AppendData(nil, 17, 100, ppp.AppendFrame(nil, ppp.IPv4, []byte{0x45, 0, 0, 20})))
	f.Add(false, l2tp.Control{Tunnel: 17, Body: l2tp.New(l2tp.CDN).AddResult(l2tp.Result{Code: 3}).Marshal()}.Marshal())
	f.Add(true, []byte{0x60, 0, 0, 0, 0, 8, 17, 64})
	s := subscribersOf(theSessions(), map[uint16]string{100: "alice"})
	f.Fuzz(func(t *testing.T, raw bool, b []byte) {
		_ = describe(raw, b, s)
		// as the payload of a datagram of L2TP
		ip := []byte{0x45, 0, byte((28 + len(b)) >> 8), byte(28 + len(b)), 0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 9, 192, 0, 2, 1, 6, 165, 6, 165, byte((8 + len(b)) >> 8), byte(8 + len(b)), 0, 0}
		text := describe(true, append(ip, b...), s)
		for _, c := range text {
			if c < ' ' {
				t.Fatalf("%x: it says %q", b, text)
			}
		}
	})
}
