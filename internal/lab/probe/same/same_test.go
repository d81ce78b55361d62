package same

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"

	"weft/wire/checksum/checksumtest"
)

func ends() Ends {
	a := netip.MustParseAddr
	return Ends{
		Member6: a("2001:db8:1::2"), Member4: a("192.0.2.2"), Second6: a("2001:db8:1::3"), Second4: a("192.0.2.3"),
		Server6: a("64:ff9b:1::198.51.100.9"), Server4: a("198.51.100.9"), Outsider6: a("2001:db8:1::7:7"),
		Prefix: netip.MustParsePrefix("64:ff9b:1::/96"),
	}
}

func TestEveryCaseHasItsNameAndAWholePacket(t *testing.T) {
	names := map[string]bool{}
	for _, c := range Cases(ends()) {
		if names[c.Name] || strings.TrimSpace(c.Name) == "" {
			t.Errorf("%q is there twice, or says nothing", c.Name)
		}
		names[c.Name] = true
		switch p := c.Packet; {
		case p[0]>>4 == 4:
			if n := int(p[2])<<8 | int(p[3]); n != len(p) || checksumtest.Of(p[:int(p[0]&15)*4]) != 0 {
				t.Errorf("%s: %d bytes say %d, or the checksum is wrong", c.Name, len(p), n)
			}
		case p[0]>>4 == 6:
			if n := int(p[4])<<8 | int(p[5]); n+40 != len(p) {
				t.Errorf("%s: %d bytes say %d", c.Name, len(p), n+40)
			}
		default:
			t.Errorf("%s is no packet: %x", c.Name, p)
		}
		if len(c.Packet) > 1500 {
			t.Errorf("%s has %d bytes, more than a link takes", c.Name, len(c.Packet))
		}
	}
	if len(names) < 50 {
		t.Errorf("%d cases", len(names))
	}
}

func TestWhatRoutersAreFreeToChooseIsNotCompared(t *testing.T) {
	e := ends()
	one := v4(e.Server4, e.Member4, udp, 0, nil, udpSegment(e.Server4, e.Member4, 5))
	other := bytes.Clone(one)
	other[4] ^= 0xff
	seal4(other)
	if !bytes.Equal(Normal(one), Normal(append(other, 0, 0, 0))) {
		t.Errorf("identification and padding count: %x, %x", Normal(one), Normal(other))
	}
	other[30]++
	if bytes.Equal(Normal(one), Normal(other)) {
		t.Error("the payload does not count")
	}
	for _, c := range Cases(e) {
		if n := Normal(c.Packet); len(n) != len(c.Packet) {
			t.Errorf("%s: %d of %d bytes are compared", c.Name, len(n), len(c.Packet))
		}
	}
}
