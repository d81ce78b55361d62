package nat64_test

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"weft/internal/feature/nat64"
	"weft/internal/state"
	"weft/wire/checksum/checksumtest"
)

// udp4 is a small UDP packet; its checksum is right.
func udp4(from, to string) []byte {
	b := make([]byte, 20+8+4)
	b[0], b[8], b[9] = 0x45, 64, 17
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	copy(b[12:], netip.MustParseAddr(from).AsSlice())
	copy(b[16:], netip.MustParseAddr(to).AsSlice())
	binary.BigEndian.PutUint16(b[20:], 1000)
	binary.BigEndian.PutUint16(b[22:], 2000)
	binary.BigEndian.PutUint16(b[24:], 12)
	binary.BigEndian.PutUint16(b[10:], checksumtest.Of(b[:20]))
	binary.BigEndian.PutUint16(b[26:], checksumtest.Of(b[12:20], []byte{0, 17, 0, 12}, b[20:]))
	return b
}

// The slow path translates as the programs do: for the CLAT's nodes, to and from
// addresses under the PLAT's prefix, and for no others.
func TestTheSlowPathOfACLAT(t *testing.T) {
	f, _ := load(t, `
[interface.lan]
addresses = ["192.168.1.1/24"]
[interface.wan]
addresses = ["2001:db8:1::5/64"]
[nat64.main]
mode = "clat"
interfaces = ["lan", "wan"]
`)
	facts := state.Facts{
		Links: []state.LinkFact{{Name: "lan", Index: 2, MTU: 1500}, {Name: "wan", Index: 3, MTU: 1500}},
		PLAT:  map[string]netip.Prefix{"main": netip.MustParsePrefix("2001:db8:64::/96")},
	}
	slow := nat64.NewSlow("main", func() int64 { return 0 }, func() uint32 { return 1 }, nil, f, facts)
	answers := slow.Handle(udp4("192.168.1.2", "203.0.113.9"), state.Arrival{})
	if len(answers) != 1 {
		t.Fatalf("%d packets", len(answers))
	}
	out := answers[0].Bytes
	from, to := netip.AddrFrom16([16]byte(out[8:24])), netip.AddrFrom16([16]byte(out[24:40]))
	if from != netip.MustParseAddr("2001:db8:1::c1a7:192.168.1.2") || to != netip.MustParseAddr("2001:db8:64::203.0.113.9") {
		t.Errorf("%s > %s", from, to)
	}
	copy(out[8:24], to.AsSlice())
	copy(out[24:40], from.AsSlice())
	answers = slow.Handle(out, state.Arrival{})
	if len(answers) != 1 || netip.AddrFrom4([4]byte(answers[0].Bytes[16:20])) != netip.MustParseAddr("192.168.1.2") {
		t.Errorf("the answer becomes %v", answers)
	}
	if answers := slow.Handle(udp4("10.9.9.9", "203.0.113.9"), state.Arrival{}); len(answers) != 0 || slow.Counts()[state.DropSourceUnmapped] != 1 {
		t.Errorf("a stranger is translated: %v, %v", answers, slow.Counts())
	}
}

func TestACLATThatKnowsNoTranslatorTranslatesNothing(t *testing.T) {
	f, _ := load(t, `
[interface.lan]
addresses = ["192.168.1.1/24"]
[interface.wan]
addresses = ["2001:db8:1::5/64"]
[nat64.main]
mode = "clat"
interfaces = ["lan", "wan"]
`)
	slow := nat64.NewSlow("main", func() int64 { return 0 }, func() uint32 { return 1 }, nil, f, state.Facts{})
	if answers := slow.Handle(udp4("192.168.1.2", "203.0.113.9"), state.Arrival{}); len(answers) != 0 {
		t.Errorf("%v", answers)
	}
}
