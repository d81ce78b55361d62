package trace

import (
	"testing"

	"weft/internal/state"
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
		_ = s.note(raw, b, state.DropSpoofed.String())
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

// What a program does not know of a subscriber's packet is said as well: what the
// session may send from, with whom its tunnel is, and that the daemon is not here.
func TestMoreIsSaidOfSubscribersPackets(t *testing.T) {
	s := subscribersOf(theSessions(), nil)
	data := func(tunnel, session uint16) []byte {
		return datagram(t, 1701, 1701, l2tp.AppendData(nil, tunnel, session, ppp.AppendFrame(nil, ppp.IPv4, udp4(t, "203.0.113.8", "198.51.100.9", 9, "x"))))
	}
	hello := datagram(t, 1701, 1701, l2tp.Control{Tunnel: 17, Body: l2tp.New(l2tp.Hello).Marshal()}.Marshal())
	for _, c := range []struct {
		name   string
		packet []byte
		reason state.Outcome
		want   string
	}{
		{"another's address", data(17, 100), state.DropSpoofed, "the session may send from 203.0.113.7 10.9.0.0/24"},
		{"from another peer", data(17, 100), state.DropL2tpPeer, "tunnel 17 is with 192.0.2.9:1701"},
		{"no such tunnel", data(77, 100), state.PassNotTranslated, "there is no tunnel 77 among the sessions that this is explained with"},
		{"no such session", data(17, 77), state.PassL2tpUnknown, "tunnel 17 has no session 77 among those that this is explained with"},
		{"control", hello, state.PassNotTranslated, "a control message: at an address of an [lns.NAME] it is the daemon's, which is not here"},
		{"too large", udp4(t, "198.51.100.9", "203.0.113.7", 9, "x"), state.SlowSubscriber, "the daemon's, which is not here: it sends it in pieces, or answers that it is too large"},
		{"one that is there", data(17, 100), state.ForwardDecapsulated, ""},
		{"PPP's own", data(17, 100), state.PassL2tpControl, ""},
		{"no L2TP", udp4(t, "198.51.100.9", "203.0.113.7", 9, "x"), state.PassNotTranslated, ""},
		{"spoofed, and not in a tunnel", udp4(t, "198.51.100.9", "203.0.113.7", 9, "x"), state.DropSpoofed, ""},
	} {
		if got := s.note(true, c.packet, c.reason.String()); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
