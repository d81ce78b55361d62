package arp

import (
	"encoding/hex"
	"net/netip"
	"testing"
)

func TestAProbeAsRFC5227WritesIt(t *testing.T) {
	own, a := [6]byte{2, 0, 0, 0, 0, 1}, netip.MustParseAddr("192.0.2.7")
	for want, p := range map[string]Packet{
		"0001080006040001" + "020000000001" + "00000000" + "000000000000" + "c0000207": Probe(own, a),
		"0001080006040001" + "020000000001" + "c0000207" + "000000000000" + "c0000207": Announcement(own, a),
	} {
		b := p.Marshal()
		if got := hex.EncodeToString(b); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if got, err := Parse(append(b, make([]byte, 18)...)); err != nil || got != p {
			t.Errorf("%+v became %+v, %v", p, got, err)
		}
		for n := range b {
			if _, err := Parse(b[:n]); err == nil {
				t.Errorf("cut at byte %d it is read", n)
			}
		}
		for _, at := range []int{1, 2, 4, 5, 7} {
			c := append([]byte(nil), b...)
			if c[at] = 9; at == 7 {
				c[at] = 3
			}
			if _, err := Parse(c); err == nil {
				t.Errorf("with another byte %d it is read", at)
			}
		}
	}
}

func TestWhatShowsAConflict(t *testing.T) {
	own, other := [6]byte{2, 0, 0, 0, 0, 1}, [6]byte{2, 0, 0, 0, 0, 2}
	a, b := netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("192.0.2.8")
	for name, c := range map[string]struct {
		p    Packet
		want bool
	}{
		"another host answers":         {Packet{Reply, other, a, own, netip.Addr{}}, true},
		"another host asks from it":    {Packet{Request, other, a, own, b}, true},
		"another host probes for it":   {Probe(other, a), true},
		"another host announces it":    {Announcement(other, a), true},
		"another host asks for it":     {Packet{Request, other, b, own, a}, false},
		"our own probe comes back":     {Probe(own, a), false},
		"our own announcement":         {Announcement(own, a), false},
		"another address is probed":    {Probe(other, b), false},
		"another address is announced": {Announcement(other, b), false},
	} {
		if got := c.p.Conflicts(a, own); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// FuzzParse: what is read is written as it came.
func FuzzParse(f *testing.F) {
	f.Add(Probe([6]byte{2}, netip.MustParseAddr("192.0.2.7")).Marshal())
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Parse(b)
		if err == nil && string(p.Marshal()) != string(b[:Len]) {
			t.Fatalf("%x became %+v", b, p)
		}
	})
}
