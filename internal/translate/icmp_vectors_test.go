package translate_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"

	"weft/internal/state"
	"weft/internal/translate"
)

// error6 is an ICMPv6 error from a node about a packet that the far end sent it.
func error6(src string, kind, code byte, rest string, quoted []byte) []byte {
	return ip6(src, far6, 58, icmpMessage(src, far6, kind, code, rest, quoted))
}

// error4 is an ICMPv4 error from src about a packet that the node sent.
func error4(src string, kind, code byte, rest string, quoted []byte) []byte {
	return ip4(src, node4, 1, 0, nil, icmpMessage(src, node4, kind, code, rest, quoted))
}

func TestICMPv6ErrorsBecomeThoseOfIPv4(t *testing.T) {
	quoted6, quoted4 := udp6(far6, node6, 20), udp4(far4, node4, 0, 20)
	for _, c := range []struct{ from, to string }{ // type, code, second word; RFC 7915 section 5.2
		{"0100 00000000", "0301 00000000"}, {"0101 00000000", "030a 00000000"}, {"0102 00000000", "0301 00000000"},
		{"0103 00000000", "0301 00000000"}, {"0104 00000000", "0303 00000000"}, {"0105 00000000", ""}, {"0106 00000000", ""},
		{"0200 00000500", "0304 000004ec"}, {"0200 00002328", "0304 000005c8"}, {"0200 0000000a", "0304 00000044"},
		{"0200 ffffffff", "0304 000005c8"},
		{"0300 00000000", "0b00 00000000"}, {"0301 00000000", "0b01 00000000"},
		{"0401 00000000", "0302 00000000"}, {"0402 00000000", ""}, {"6400 00000000", ""},
		// pointers, figure 6
		{"0400 00000000", "0c00 00000000"}, {"0400 00000001", "0c00 01000000"}, {"0400 00000002", ""},
		{"0400 00000003", ""}, {"0400 00000004", "0c00 02000000"}, {"0400 00000005", "0c00 02000000"},
		{"0400 00000006", "0c00 09000000"}, {"0400 00000007", "0c00 08000000"}, {"0400 00000008", "0c00 0c000000"},
		{"0400 00000017", "0c00 0c000000"}, {"0400 00000018", "0c00 10000000"}, {"0400 00000027", "0c00 10000000"},
		{"0400 00000028", ""}, {"0400 01000006", ""},
	} {
		from := bin(c.from)
		v := vector{name: c.from, outcome: state.DropIcmpType,
			pkt: error6(node6, from[0], from[1], fmt.Sprintf("%x", from[2:]), quoted6)}
		if c.to != "" {
			to := bin(c.to)
			v.outcome = state.Forward6to4
			v.want = one(ip4(node4, far4, 1, 0, nil, icmpMessage(node4, far4, to[0], to[1], fmt.Sprintf("%x", to[2:]), quoted4)))
		}
		runVectors(t, []vector{v})
	}
}

func TestICMPv4ErrorsBecomeThoseOfIPv6(t *testing.T) {
	quoted4, quoted6 := udp4(node4, far4, 0, 20), udp6(node6, far6, 20)
	for _, c := range []struct{ from, to string }{ // RFC 7915 section 4.2
		{"0300 00000000", "0100 00000000"}, {"0301 00000000", "0100 00000000"}, {"0302 00000000", "0401 00000006"},
		{"0303 00000000", "0104 00000000"}, {"0305 00000000", "0100 00000000"}, {"0306 00000000", "0100 00000000"},
		{"0307 00000000", "0100 00000000"}, {"0308 00000000", "0100 00000000"}, {"0309 00000000", "0101 00000000"},
		{"030a 00000000", "0101 00000000"}, {"030b 00000000", "0100 00000000"}, {"030c 00000000", "0100 00000000"},
		{"030d 00000000", "0101 00000000"}, {"030e 00000000", ""}, {"030f 00000000", "0101 00000000"}, {"0310 00000000", ""},
		{"0304 00000578", "0200 0000058c"}, {"0304 00000044", "0200 00000500"}, {"0304 0000ffff", "0200 000005dc"},
		{"0400 00000000", ""}, {"0500 00000000", ""}, {"0600 00000000", ""},
		{"0b00 00000000", "0300 00000000"}, {"0b01 00000000", "0301 00000000"},
		{"0c01 00000000", ""}, {"0c02 02000000", "0400 00000004"}, {"0c03 00000000", ""},
		// pointers, figure 3
		{"0c00 00000000", "0400 00000000"}, {"0c00 01000000", "0400 00000001"}, {"0c00 02000000", "0400 00000004"},
		{"0c00 03000000", "0400 00000004"}, {"0c00 04000000", ""}, {"0c00 06000000", ""}, {"0c00 08000000", "0400 00000007"},
		{"0c00 09000000", "0400 00000006"}, {"0c00 0a000000", ""}, {"0c00 0c000000", "0400 00000008"},
		{"0c00 0f000000", "0400 00000008"}, {"0c00 10000000", "0400 00000018"}, {"0c00 13000000", "0400 00000018"},
		{"0c00 14000000", ""},
	} {
		from := bin(c.from)
		v := vector{name: c.from, outcome: state.DropIcmpType,
			pkt: error4(far4, from[0], from[1], fmt.Sprintf("%x", from[2:]), quoted4)}
		if c.to != "" {
			to := bin(c.to)
			v.outcome = state.Forward4to6
			v.want = one(ip6(far6, node6, 58, icmpMessage(far6, node6, to[0], to[1], fmt.Sprintf("%x", to[2:]), quoted6)))
		}
		runVectors(t, []vector{v})
	}
}

func TestARouterThatNamesNoMTUIsAnsweredForFromThePlateaus(t *testing.T) {
	for total, want := range map[int]string{ // RFC 1191 section 7.1, plus 20 for the header
		65535: "00007d14", 18000: "0000460e", 9000: "00001ffa", 2002: "000005e8", 1492: "00000500", 1300: "00000500",
	} {
		quoted := with(udp4(node4, far4, 0x4000, 64), 2, byte(total>>8), byte(total))
		c := vectorConfig()
		c.MTU4, c.MTU6 = 0, 0
		r, err := check4(c, error4(far4, 3, 4, "00000000", quoted))
		if err != nil || len(r.Out) != 1 || !bytes.Equal(r.Out[0][44:48], bin(want)) {
			t.Errorf("total %d: %v %v %x, want %s", total, err, r.Outcome, r.Out, want)
		}
	}
}

func TestQuotedPacketsAreTranslatedAsFarAsTheyGo(t *testing.T) {
	ok6, ok4 := state.Forward4to6, state.Forward6to4
	to6 := func(q []byte) [][]byte {
		return one(ip6(far6, node6, 58, icmpMessage(far6, node6, 3, 0, "00000000", q)))
	}
	to4 := func(q []byte) [][]byte {
		return one(ip4(node4, far4, 1, 0, nil, icmpMessage(node4, far4, 11, 0, "00000000", q)))
	}
	tcp4, tcp6 := tcpSegment(node4, far4, 0x10, nil, 9), tcpSegment(node6, far6, 0x10, nil, 9)
	back4, back6 := tcpSegment(far4, node4, 0x10, nil, 9), tcpSegment(far6, node6, 0x10, nil, 9)
	cut4, cut6 := ip4(node4, far4, 6, 0, nil, tcp4)[:28], ip6(node6, far6, 6, tcp6)[:48]
	echo4, echo6 := icmpMessage(node4, far4, 8, 0, "00070001", counted(5)), icmpMessage(node6, far6, 128, 0, "00070001", counted(5))
	runVectors(t, []vector{
		{name: "eight bytes of TCP, which is all that RFC 792 promises", pkt: error4(far4, 11, 0, "00000000", cut4), outcome: ok6, want: to6(cut6)},
		{name: "a whole TCP segment", pkt: error4(far4, 11, 0, "00000000", ip4(node4, far4, 6, 0, nil, tcp4)), outcome: ok6,
			want: to6(ip6(node6, far6, 6, tcp6))},
		{name: "nothing but the header", pkt: error4(far4, 11, 0, "00000000", cut4[:20]), outcome: ok6, want: to6(cut6[:40])},
		{name: "less than the header", pkt: error4(far4, 11, 0, "00000000", cut4[:19]), outcome: state.DropTruncated},
		{name: "an IPv6 packet in an ICMPv4 error", pkt: error4(far4, 11, 0, "00000000", cut6), outcome: state.DropBadHeader},
		{name: "TTL zero, header checksum gone stale", outcome: ok6, want: to6(with(cut6, 7, 0)),
			pkt: error4(far4, 11, 0, "00000000", append(append(bytes.Clone(cut4[:8]), 0), cut4[9:]...))},
		{name: "an echo request", pkt: error4(far4, 11, 0, "00000000", ip4(node4, far4, 1, 0, nil, echo4)), outcome: ok6,
			want: to6(ip6(node6, far6, 58, echo6))},
		{name: "a fragment", pkt: error4(far4, 11, 0, "00000000", ip4(node4, far4, 17, 0x2002, nil, counted(8))), outcome: ok6,
			want: to6(ip6(node6, far6, 44, bin("1100001100001234"), counted(8)))},
		{name: "an error about an error", outcome: state.DropIcmpType,
			pkt: error4(far4, 11, 0, "00000000", ip4(node4, far4, 1, 0, nil, icmpMessage(node4, far4, 3, 3, "00000000", cut4)))},
		{name: "between two mapped nodes the quoted destination appears by the prefix", outcome: ok6,
			pkt: ip4("198.51.100.8", node4, 1, 0, nil,
				icmpMessage("198.51.100.8", node4, 3, 3, "00000000", udp4(node4, "198.51.100.8", 0, 2))),
			want: one(ip6("2001:db8:1c6:3364:8::", node6, 58, icmpMessage("2001:db8:1c6:3364:8::", node6, 1, 4, "00000000",
				udp6(node6, "2001:db8:1c6:3364:8::", 2))))},
		{name: "towards IPv4, a whole TCP segment", pkt: error6(node6, 3, 0, "00000000", ip6(far6, node6, 6, back6)), outcome: ok4,
			want: to4(ip4(far4, node4, 6, 0, nil, back4))},
		{name: "towards IPv4, cut", pkt: error6(node6, 3, 0, "00000000", ip6(far6, node6, 6, back6)[:48]), outcome: ok4,
			want: to4(ip4(far4, node4, 6, 0, nil, back4)[:28])},
		{name: "towards IPv4, less than the header", pkt: error6(node6, 3, 0, "00000000", cut6[:39]), outcome: state.DropTruncated},
		{name: "towards IPv4, a fragment", outcome: ok4,
			pkt:  error6(node6, 3, 0, "00000000", ip6(far6, node6, 44, bin("1100001100001234"), counted(8))),
			want: to4(ip4(far4, node4, 17, 0x2002, nil, counted(8)))},
		{name: "towards IPv4, a stranger's packet", pkt: error6(node6, 3, 0, "00000000", udp6("2001:db9::1", node6, 0)),
			outcome: state.DropSourceUnmapped},
		{name: "towards IPv4, a packet to a stranger", pkt: error6(node6, 3, 0, "00000000", udp6(far6, "2001:db9::1", 0)),
			outcome: state.DropDestinationUnmapped},
	})
}

func TestTooBigMakesRoomForTheFragmentHeaderOfTheQuotedPacket(t *testing.T) {
	quoted := ip6(far6, node6, 44, bin("1100000100001234"), udpSegment(far6, node6, 24))
	r, err := check6(vectorConfig(), error6(node6, 2, 0, "00000578", quoted))
	if err != nil || len(r.Out) != 1 || be16(r.Out[0][26:]) != 1400-28 {
		t.Errorf("%v %v %x", err, r.Outcome, r.Out)
	}
}

func TestErrorsFromUnknownRoutersGetASource(t *testing.T) {
	const router6 = "2001:db9::fe"
	quoted6, quoted4 := udp6(far6, node6, 20), udp4(far4, node4, 0, 20)
	pkt := error6(router6, 3, 0, "00000000", quoted6)
	from := func(src string) [][]byte {
		return one(ip4(src, far4, 1, 0, nil, icmpMessage(src, far4, 11, 0, "00000000", quoted4)))
	}
	empty := func(c *translate.Config) { c.ErrorSource4 = nil }
	runVectors(t, []vector{
		{name: "of the pool (RFC 6791)", pkt: pkt, outcome: state.Forward6to4, want: from("203.0.113.8")},
		{name: "another of the pool for another router", outcome: state.Forward6to4, want: from("203.0.113.9"),
			pkt: error6("2001:db9::ff", 3, 0, "00000000", quoted6)},
		{name: "of the router itself without a pool", set: empty, pkt: pkt, outcome: state.Forward6to4, want: from("192.0.2.1")},
		{name: "none without either", set: func(c *translate.Config) { empty(c); c.Router4 = netip.Addr{} },
			pkt: pkt, outcome: state.DropSourceUnmapped},
		{name: "an illegal IPv4 source is shown for what it is", outcome: state.Forward4to6,
			pkt: error4("127.0.0.1", 11, 0, "00000000", udp4(node4, far4, 0, 2)),
			want: one(ip6("2001:db8:17f:0:1::", node6, 58,
				icmpMessage("2001:db8:17f:0:1::", node6, 3, 0, "00000000", udp6(node6, far6, 2))))},
		{name: "an IPv4 source without translation becomes the router", outcome: state.Forward4to6,
			set: noPrefix, pkt: error4(far4, 11, 0, "00000000", udp4(node4, "198.51.100.9", 0, 2)),
			want: one(ip6("2001:db8::1", node6, 58,
				icmpMessage("2001:db8::1", node6, 3, 0, "00000000", udp6(node6, "2001:db8:3::9", 2))))},
	})
}

func TestExtensionsOfErrorsSurviveWholeOrNotAtAll(t *testing.T) {
	ext := bin("2000 dfd9 000c 0208 0000 0000 0000 0001") // RFC 4884 section 7, RFC 5837 object
	pad := func(b []byte, n int) []byte { return append(bytes.Clone(b), make([]byte, n-len(b))...) }
	q4, q6 := udp4(node4, far4, 0, 60), udp6(node6, far6, 60)
	runVectors(t, []vector{
		{name: "the length attribute counts eights in IPv6", outcome: state.Forward4to6,
			pkt: error4(far4, 11, 0, "00200000", append(pad(q4, 128), ext...)),
			want: one(ip6(far6, node6, 58, icmpMessage(far6, node6, 3, 0, "10000000",
				append(pad(q6, 128), ext...))))},
		{name: "and fours in IPv4", outcome: state.Forward6to4,
			pkt: ip6(node6, far6, 58, icmpMessage(node6, far6, 1, 4, "10000000", append(pad(udp6(far6, node6, 60), 128), ext...))),
			want: one(ip4(node4, far4, 1, 0, nil, icmpMessage(node4, far4, 3, 3, "00200000",
				append(pad(udp4(far4, node4, 0, 60), 128), ext...))))},
		{name: "Packet Too Big can carry none", outcome: state.Forward4to6,
			pkt:  error4(far4, 3, 4, "00200578", append(pad(q4, 128), ext...)),
			want: one(ip6(far6, node6, 58, icmpMessage(far6, node6, 2, 0, "0000058c", q6)))},
		{name: "a length attribute that lies counts for nothing", outcome: state.Forward4to6,
			pkt:  error4(far4, 11, 0, "00ff0000", q4),
			want: one(ip6(far6, node6, 58, icmpMessage(far6, node6, 3, 0, "00000000", q6)))},
		{name: "what is quoted beyond 128 bytes is cut to the unit", outcome: state.Forward4to6,
			pkt: error4(far4, 11, 0, "00200000", append(udp4(node4, far4, 0, 100), ext...)),
			want: one(ip6(far6, node6, 58, icmpMessage(far6, node6, 3, 0, "12000000",
				append(udp6(node6, far6, 100)[:144], ext...))))},
		{name: "as many as fit stay", outcome: state.Forward6to4,
			pkt: ip6(node6, far6, 58, icmpMessage(node6, far6, 1, 4, "10000000", append(pad(udp6(far6, node6, 60), 128), counted(420)...))),
			want: one(ip4(node4, far4, 1, 0, nil, icmpMessage(node4, far4, 3, 3, "00200000",
				append(pad(udp4(far4, node4, 0, 60), 128), counted(420)...))))},
		{name: "too many of them go, not the packet", outcome: state.Forward6to4,
			pkt:  ip6(node6, far6, 58, icmpMessage(node6, far6, 1, 4, "10000000", append(pad(udp6(far6, node6, 60), 128), counted(421)...))),
			want: one(ip4(node4, far4, 1, 0, nil, icmpMessage(node4, far4, 3, 3, "00000000", udp4(far4, node4, 0, 60))))},
	})
}

func TestErrorsAreCutToWhatTheirFamilyAllows(t *testing.T) {
	r, err := check6(vectorConfig(), error6(node6, 1, 4, "00000000", udp6(far6, node6, 1000)))
	if err != nil || len(r.Out) != 1 || len(r.Out[0]) != 576 {
		t.Errorf("%v %v %d packets", err, r.Outcome, len(r.Out))
	}
	r, err = check4(vectorConfig(), error4(far4, 3, 3, "00000000", udp4(node4, far4, 0, 1400)))
	if err != nil || len(r.Out) != 1 || len(r.Out[0]) != 1280 {
		t.Errorf("%v %v %d packets", err, r.Outcome, len(r.Out))
	}
}

func TestErrorsAreNeverAnsweredWithErrors(t *testing.T) {
	hopless := func(p []byte, at int) []byte { return with(p, at, 1) }
	runVectors(t, []vector{
		{name: "ICMPv6 error at its last hop", set: decrement, outcome: state.DropHopLimit,
			pkt: hopless(error6(node6, 1, 4, "00000000", udp6(far6, node6, 0)), 7)},
		{name: "ICMPv6 error behind an options header", set: decrement, outcome: state.DropHopLimit,
			pkt: hopless(ip6(node6, far6, 60, bin("3a00010400000000"),
				icmpMessage(node6, far6, 1, 4, "00000000", udp6(far6, node6, 0))), 7)},
		{name: "redirect at its last hop", set: decrement, outcome: state.DropHopLimit,
			pkt: hopless(ip6(node6, far6, 58, icmpMessage(node6, far6, 137, 0, "00000000", counted(32))), 7)},
		{name: "echo request at its last hop is answered", set: decrement, outcome: state.DropHopLimit, reply: "0300 00000000",
			pkt: hopless(ip6(node6, far6, 58, icmpMessage(node6, far6, 128, 0, "00000000", nil)), 7)},
		{name: "ICMPv4 error at its last hop", set: decrement, outcome: state.DropHopLimit,
			pkt: hopless(error4(far4, 3, 3, "00000000", udp4(node4, far4, 0, 0)), 8)},
	})
}

func TestTheMSSOfASYNIsLoweredToWhatBothLinksCarry(t *testing.T) {
	clamp := func(c *translate.Config) { c.ClampMSS, c.MTU4, c.MTU6 = true, 1500, 1400 }
	segment := func(flags byte, options string) (from, to func(string) []byte) {
		return func(o string) []byte { return ip6(node6, far6, 6, tcpSegment(node6, far6, flags, bin(o), 0)) },
			func(o string) []byte { return ip4(node4, far4, 6, 0, nil, tcpSegment(node4, far4, flags, bin(o), 0)) }
	}
	var list []vector
	for _, c := range []struct {
		name     string
		flags    byte
		from, to string
	}{
		{"down to 1340", 2, "020405b4", "0204053c"},
		{"in an answer too", 0x12, "020405b4", "0204053c"},
		{"not in a packet without SYN", 0x10, "020405b4", "020405b4"},
		{"not up", 2, "02040218", "02040218"},
		{"at an odd place", 2, "01 020405b4 000000", "01 0204053c 000000"},
		{"behind other options", 2, "030307 0402 080a0001020304050607 020405b4 0101", "030307 0402 080a0001020304050607 0204053c 0101"},
		{"not behind the end of options", 2, "00 020405b4 000000", "00 020405b4 000000"},
		{"not behind an option of length zero", 2, "0800 020405b4 0000", "0800 020405b4 0000"},
		{"not beyond the header", 2, "01010204", "01010204"},
	} {
		from, to := segment(c.flags, c.from)
		list = append(list, vector{name: c.name, set: clamp, pkt: from(c.from), outcome: state.Forward6to4, want: one(to(c.to))})
	}
	runVectors(t, append(list, vector{name: "towards IPv6 as well", set: clamp, outcome: state.Forward4to6,
		pkt:  ip4(far4, node4, 6, 0x4000, nil, tcpSegment(far4, node4, 2, bin("020405b4"), 0)),
		want: one(ip6(far6, node6, 6, tcpSegment(far6, node6, 2, bin("0204053c"), 0)))}))
}
