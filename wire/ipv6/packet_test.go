package ipv6

import (
	"bytes"
	"net/netip"
	"testing"
)

func TestADatagramIsReadAsItWasWritten(t *testing.T) {
	from, to := netip.MustParseAddr("fe80::1"), netip.MustParseAddr("ff02::1:2")
	p, err := Parse(append(MarshalUDP(from, to, 546, 547, []byte("solicit")), "behind"...))
	if err != nil || p.From != from || p.To != to || p.NextHeader != UDP || p.HopLimit != 1 || p.Checksum(p.Payload) != 0 {
		t.Fatalf("it is %+v, %v", p, err)
	}
	payload, port, ok := p.Datagram(547)
	if !ok || port != 546 || string(payload) != "solicit" {
		t.Errorf("%q from port %d, %v", payload, port, ok)
	}
	if _, _, ok := p.Datagram(546); ok {
		t.Error("it is for another port")
	}
}

// FuzzParse: what is no packet is refused, and what is one is read and written as it came.
func FuzzParse(f *testing.F) {
	f.Add(MarshalUDP(netip.MustParseAddr("fe80::1"), netip.MustParseAddr("fe80::2"), 546, 547, []byte("x")))
	f.Add(Packet{From: netip.MustParseAddr("fe80::1"), To: netip.MustParseAddr("ff02::2"), NextHeader: ICMPv6, HopLimit: 255, Payload: []byte{133, 0, 0, 0, 0, 0, 0, 0}}.Marshal(2))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Parse(b)
		if err != nil {
			return
		}
		_, _, _ = p.Datagram(547)
		if p.NextHeader == ICMPv6 && len(p.Payload) >= 4 && p.Checksum(p.Payload) == 0 {
			again, err := Parse(p.Marshal(2))
			if err != nil || again.From != p.From || again.To != p.To || !bytes.Equal(again.Payload[4:], p.Payload[4:]) {
				t.Fatalf("%+v became %+v, %v", p, again, err)
			}
		}
	})
}
