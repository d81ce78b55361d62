package translate_test

import (
	"bytes"
	"net/netip"
	"testing"

	"weft/internal/state"
	"weft/internal/translate"
)

// The addresses of the vectors: an IPv6 node with a mapping and an IPv4 node.
const (
	node6, node4 = "2001:db8:4::42", "192.0.2.42"
	far6, far4   = "2001:db8:1c6:336e:7::", "198.51.110.7"
)

// vector is a packet and what must become of it. want is nil where only the
// outcome matters; reply is type, code and second word of the error, "" none.
type vector struct {
	name    string
	set     func(*translate.Config)
	pkt     []byte
	outcome state.Outcome
	want    [][]byte
	reply   string
}

func vectorConfig() *translate.Config {
	c := configs()["usual"]
	c.DecrementTTL = false
	c.Identification = func() uint32 { return 0xabcd1234 }
	return c
}

func runVectors(t *testing.T, vectors []vector) {
	for _, v := range vectors {
		t.Run(v.name, func(t *testing.T) {
			c := vectorConfig()
			if v.set != nil {
				v.set(c)
			}
			check, at := check6, 40
			if v.pkt[0]>>4 == 4 {
				check, at = check4, 20
			}
			r, err := check(c, v.pkt)
			if err != nil {
				t.Error(err)
			}
			if r.Outcome != v.outcome {
				t.Errorf("%v, want %v", r.Outcome, v.outcome)
			}
			if v.want != nil && !equal(r.Out, v.want) {
				t.Errorf("out\n%x, want\n%x", r.Out, v.want)
			}
			var want, got []byte
			if v.reply != "" {
				want = bin(v.reply)
			}
			if r.Reply != nil {
				got = append(bytes.Clone(r.Reply[at:at+2]), r.Reply[at+4:at+8]...)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("reply %x, want %x", got, want)
			}
		})
	}
}

func equal(a, b [][]byte) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !bytes.Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

func one(p []byte) [][]byte { return [][]byte{p} }

func decrement(c *translate.Config) { c.DecrementTTL = true }
func strictWKP(c *translate.Config) {
	c.GlobalOnly, c.Table = true, translate.NewTable(netip.MustParsePrefix("64:ff9b::/96"), c.Table.Mappings())
}
func noPrefix(c *translate.Config)   { c.Table = translate.NewTable(netip.Prefix{}, c.Table.Mappings()) }
func computeUDP(c *translate.Config) { c.ComputeUDPZero = true }

// with changes bytes of a packet, IPv4 header checksum kept right.
func with(pkt []byte, at int, b ...byte) []byte {
	pkt = bytes.Clone(pkt)
	copy(pkt[at:], b)
	if pkt[0]>>4 == 4 {
		pkt[10], pkt[11] = 0, 0
		s := ^onesSum(pkt[:min(len(pkt), max(20, int(pkt[0]&15)*4))])
		pkt[10], pkt[11] = byte(s>>8), byte(s)
	}
	return pkt
}

// zeroUDP clears the checksum of a UDP segment.
func zeroUDP(seg []byte) []byte { return with(seg, 6, 0, 0) }

func TestIPv6PacketsBecomeIPv4(t *testing.T) {
	tcp6 := tcpSegment(node6, far6, 0x10, nil, 9)
	tcp4 := tcpSegment(node4, far4, 0x10, nil, 9)
	u4 := udpSegment(node4, far4, 9)
	u6 := udpSegment(node6, far6, 9)
	ok := state.Forward6to4
	hop := bin("3b00010400000000")
	runVectors(t, []vector{
		{name: "a TCP segment keeps all but its checksum", pkt: ip6(node6, far6, 6, tcp6), outcome: ok,
			want: one(ip4(node4, far4, 6, 0, nil, tcp4))},
		{name: "a datagram loses link padding", pkt: append(ip6(node6, far6, 17, u6), 1, 2, 3), outcome: ok,
			want: one(ip4(node4, far4, 17, 0, nil, u4))},
		{name: "a missing UDP checksum stays missing", pkt: ip6(node6, far6, 17, zeroUDP(u6)), outcome: ok,
			want: one(ip4(node4, far4, 17, 0, nil, zeroUDP(u4)))},
		{name: "an echo request loses the pseudo header", outcome: ok,
			pkt:  ip6(node6, far6, 58, icmpMessage(node6, far6, 128, 0, "00070001", counted(5))),
			want: one(ip4(node4, far4, 1, 0, nil, icmpMessage(node4, far4, 8, 0, "00070001", counted(5))))},
		{name: "an echo reply of zeros gets the other zero as checksum", outcome: ok,
			pkt:  ip6(node6, far6, 58, icmpMessage(node6, far6, 129, 0, "00000000", nil)),
			want: one(ip4(node4, far4, 1, 0, nil, bin("0000 ffff 00000000")))},
		{name: "a result above 1260 bytes has DF", pkt: udp6(node6, far6, 1261-28), outcome: ok,
			want: one(udp4(node4, far4, 0x4000, 1261-28))},
		{name: "a result of 1260 bytes has not", pkt: udp6(node6, far6, 1260-28), outcome: ok,
			want: one(udp4(node4, far4, 0, 1260-28))},
		{name: "traffic class is not copied unless asked", set: func(c *translate.Config) { c.CopyTOS = false },
			pkt: ip6(node6, far6, 17, u6), outcome: ok, want: one(with(ip4(node4, far4, 17, 0, nil, u4), 1, 0))},
		{name: "a router takes a hop", set: decrement, pkt: ip6(node6, far6, 17, u6), outcome: ok,
			want: one(with(ip4(node4, far4, 17, 0, nil, u4), 8, 63))},
		{name: "extension headers are left behind", outcome: ok,
			pkt:  ip6(node6, far6, 0, bin("3c00010400000000 2b00010400000000 1102000000000000 00000000000000000000000000000000"), u6),
			want: one(ip4(node4, far4, 17, 0, nil, u4))},
		{name: "eight extension headers are followed", outcome: ok,
			pkt: ip6(node6, far6, 0, bytes.Repeat(bin("3c00010400000000"), 7), hop)},
		{name: "no next header crosses", pkt: ip6(node6, far6, 59), outcome: ok,
			want: one(ip4(node4, far4, 59, 0, nil, nil))},
		{name: "ESP crosses untouched", pkt: ip6(node6, far6, 50, counted(40)), outcome: ok,
			want: one(ip4(node4, far4, 50, 0, nil, counted(40)))},
		{name: "an atomic fragment keeps its identification and no more", outcome: ok,
			pkt: ip6(node6, far6, 44, bin("11000000aaaa1234"), u6), want: one(ip4(node4, far4, 17, 0, nil, u4))},
		{name: "a first fragment has its checksum adjusted", outcome: ok,
			pkt:  ip6(node6, far6, 44, bin("11000001aaaa1234"), u6[:16]),
			want: one(ip4(node4, far4, 17, 0x2000, nil, u4[:16]))},
		{name: "a later fragment is copied", pkt: ip6(node6, far6, 44, bin("11000010aaaa1234"), counted(5)), outcome: ok,
			want: one(ip4(node4, far4, 17, 2, nil, counted(5)))},
		{name: "a packet of 1280 bytes is fragmented for a narrow IPv4 link", outcome: ok,
			set: func(c *translate.Config) { c.MTU4 = 1000 }, pkt: ip6(node6, far6, 50, counted(1240)),
			want: [][]byte{ip4(node4, far4, 50, 0x2000, nil, counted(976)),
				ip4(node4, far4, 50, 122, nil, counted(1240)[976:])}},
	})
}

func TestAUDPChecksumThatComesOutAsZeroIsSentAsAllOnes(t *testing.T) {
	towards4 := udpSegment(node4, far4, 2) // its checksum becomes its data, so that all adds up
	copy(towards4[8:], []byte{0, 0})
	copy(towards4[8:], sealed(towards4, 6, node4, far4, 17)[6:8])
	towards4[6], towards4[7] = 0xff, 0xff
	seg := sealed(bytes.Clone(towards4), 6, node6, far6, 17)
	runVectors(t, []vector{{name: "towards IPv4", pkt: ip6(node6, far6, 17, seg), outcome: state.Forward6to4,
		want: one(ip4(node4, far4, 17, 0, nil, towards4))}})
}

func TestIPv6PacketsThatAreNotTranslated(t *testing.T) {
	u := udpSegment(node6, far6, 9)
	good := ip6(node6, far6, 17, u)
	from := func(src string) []byte { return ip6(src, far6, 17, u) }
	to := func(dst string) []byte { return ip6(node6, dst, 17, u) }
	echo := icmpMessage(node6, far6, 128, 0, "00070001", counted(5))
	runVectors(t, []vector{
		{name: "39 bytes are no header", pkt: good[:39], outcome: state.DropTruncated},
		{name: "version 5 is none", pkt: with(good, 0, 0x55), outcome: state.DropBadHeader},
		{name: "a payload length beyond the packet", pkt: with(good, 5, 18), outcome: state.DropTruncated},
		{name: "multicast stays", pkt: to("ff02::1"), outcome: state.PassLinkScope},
		{name: "link-local stays", pkt: to("febf::1"), outcome: state.PassLinkScope},
		{name: "what has no IPv4 address stays", pkt: to("2001:db9::1"), outcome: state.PassNotTranslated},
		{name: "a u octet that is not zero stays", pkt: to("2001:db8:1c6:336e:107::"), outcome: state.PassNotTranslated},
		{name: "from nowhere", pkt: from("::"), outcome: state.DropIllegalAddress},
		{name: "from itself", pkt: from("::1"), outcome: state.DropIllegalAddress},
		{name: "from a group", pkt: from("ff0e::1"), outcome: state.DropIllegalAddress},
		{name: "from link-local", pkt: from("fe80::1"), outcome: state.DropIllegalAddress},
		{name: "to 127.0.0.1", pkt: to("2001:db8:17f:0:1::"), outcome: state.DropIllegalAddress},
		{name: "to 0.1.2.3", pkt: to("2001:db8:100:102:3::"), outcome: state.DropIllegalAddress},
		{name: "to 224.0.0.1", pkt: to("2001:db8:1e0:0:1::"), outcome: state.DropIllegalAddress},
		{name: "to 255.255.255.255", pkt: to("2001:db8:1ff:ffff:ff::"), outcome: state.DropIllegalAddress},
		{name: "from a source that stands for 127.0.0.1", pkt: from("2001:db8:17f:0:1::"), outcome: state.DropIllegalAddress},
		{name: "to 10.0.0.1 by the well-known prefix", set: strictWKP, pkt: to("64:ff9b::10.0.0.1"),
			outcome: state.DropIllegalAddress},
		{name: "to 8.8.8.8 by the well-known prefix", set: strictWKP, pkt: to("64:ff9b::8.8.8.8"), outcome: state.Forward6to4},
		{name: "a source without translation gets an ICMP error", pkt: from("2001:db9::1"),
			outcome: state.DropSourceUnmapped, reply: "0101 00000000"},
		{name: "a hop limit of one", set: decrement, pkt: with(good, 7, 1), outcome: state.DropHopLimit, reply: "0300 00000000"},
		{name: "a hop limit of zero", set: decrement, pkt: with(good, 7, 0), outcome: state.DropHopLimit, reply: "0300 00000000"},
		{name: "a hop limit of one where another decrements", pkt: with(good, 7, 1), outcome: state.Forward6to4},
		{name: "segments left, behind an options header", outcome: state.DropSourceRoute, reply: "0400 00000033",
			pkt: ip6(node6, far6, 60, bin("2b00010400000000 1100000100000000"), u)},
		{name: "an authentication header", pkt: ip6(node6, far6, 51, bin("110100000000000100000001"), u),
			outcome: state.DropProtocol, reply: "0101 00000000"},
		{name: "ICMPv4 in IPv6", pkt: ip6(node6, far6, 1, counted(8)), outcome: state.DropProtocol, reply: "0101 00000000"},
		{name: "an options header after the fragment header", outcome: state.DropExtensionHeaders, reply: "0101 00000000",
			pkt: ip6(node6, far6, 44, bin("3c00000100000001 1100010400000000"), u)},
		{name: "a ninth extension header", outcome: state.DropExtensionHeaders, reply: "0101 00000000",
			pkt: ip6(node6, far6, 60, bytes.Repeat(bin("3c00010400000000"), 8), bin("1100010400000000"), u)},
		{name: "an extension header longer than the packet", pkt: ip6(node6, far6, 60, bin("1109010400000000"), u),
			outcome: state.DropTruncated},
		{name: "an extension header that is cut off", pkt: ip6(node6, far6, 60, bin("11000104000000")), outcome: state.DropTruncated},
		{name: "19 bytes of TCP", pkt: ip6(node6, far6, 6, counted(19)), outcome: state.DropTruncated},
		{name: "7 bytes of UDP", pkt: ip6(node6, far6, 17, counted(7)), outcome: state.DropTruncated},
		{name: "7 bytes of ICMPv6", pkt: ip6(node6, far6, 58, echo[:7]), outcome: state.DropTruncated},
		{name: "7 bytes of UDP in a first fragment", pkt: ip6(node6, far6, 44, bin("1100000100000001"), u[:7]), outcome: state.DropTruncated},
		{name: "a UDP length beyond the payload", pkt: ip6(node6, far6, 17, with(u, 4, 0, 18)), outcome: state.DropBadHeader},
		{name: "a UDP length below eight", pkt: ip6(node6, far6, 17, with(u, 4, 0, 7)), outcome: state.DropBadHeader},
		{name: "a first fragment of ICMPv6", pkt: ip6(node6, far6, 44, bin("3a00000100000001"), echo[:8]), outcome: state.DropIcmpFragment},
		{name: "a later fragment of ICMPv6", pkt: ip6(node6, far6, 44, bin("3a00001000000001"), echo[:8]), outcome: state.DropIcmpFragment},
		{name: "a fragment beyond 65535 bytes", pkt: ip6(node6, far6, 44, bin("1100fff800000001"), counted(8)), outcome: state.DropBadHeader},
		{name: "neighbour discovery", pkt: ip6(node6, far6, 58, icmpMessage(node6, far6, 135, 0, "00000000", counted(16))), outcome: state.DropIcmpType},
		{name: "multicast listener discovery", pkt: ip6(node6, far6, 58, icmpMessage(node6, far6, 143, 0, "00000000", nil)), outcome: state.DropIcmpType},
		{name: "too large for IPv4", set: func(c *translate.Config) { c.MTU4 = 1400 }, pkt: udp6(node6, far6, 1373),
			outcome: state.DropTooBig, reply: "0200 0000058c"},
		{name: "too large for a narrow IPv4 link, the error says no less than 1280", set: func(c *translate.Config) { c.MTU4 = 600 },
			pkt: udp6(node6, far6, 1233), outcome: state.DropTooBig, reply: "0200 00000500"},
		{name: "no router address, no reply", set: func(c *translate.Config) { c.Router6 = netip.Addr{} },
			pkt: from("2001:db9::1"), outcome: state.DropSourceUnmapped},
	})
}

func TestIPv4PacketsBecomeIPv6(t *testing.T) {
	ok := state.Forward4to6
	tcp4 := tcpSegment(far4, node4, 0x10, nil, 9)
	tcp6 := tcpSegment(far6, node6, 0x10, nil, 9)
	u4, u6 := udpSegment(far4, node4, 9), udpSegment(far6, node6, 9)
	id := "00001234"
	runVectors(t, []vector{
		{name: "a TCP segment keeps all but its checksum", pkt: ip4(far4, node4, 6, 0x4000, nil, tcp4), outcome: ok,
			want: one(ip6(far6, node6, 6, tcp6))},
		{name: "without DF there is no fragment header either", pkt: ip4(far4, node4, 6, 0, nil, tcp4), outcome: ok,
			want: one(ip6(far6, node6, 6, tcp6))},
		{name: "the reserved flag is ignored", pkt: ip4(far4, node4, 6, 0x8000, nil, tcp4), outcome: ok,
			want: one(ip6(far6, node6, 6, tcp6))},
		{name: "link padding is cut off", pkt: append(ip4(far4, node4, 17, 0, nil, u4), counted(9)...), outcome: ok,
			want: one(ip6(far6, node6, 17, u6))},
		{name: "options are left behind, used-up source route among them", outcome: ok,
			pkt:  ip4(far4, node4, 17, 0, bin("01 830708c0000201 00 ffffff"), u4),
			want: one(ip6(far6, node6, 17, u6))},
		{name: "an echo reply gains the pseudo header", outcome: ok,
			pkt:  ip4(far4, node4, 1, 0, nil, icmpMessage(far4, node4, 0, 0, "00070001", counted(5))),
			want: one(ip6(far6, node6, 58, icmpMessage(far6, node6, 129, 0, "00070001", counted(5))))},
		{name: "a missing UDP checksum is computed if asked", set: computeUDP, outcome: ok,
			pkt: ip4(far4, node4, 17, 0, nil, zeroUDP(u4)), want: one(ip6(far6, node6, 17, u6))},
		{name: "a first fragment gets a fragment header", pkt: ip4(far4, node4, 17, 0x2000, nil, u4[:16]), outcome: ok,
			want: one(ip6(far6, node6, 44, bin("11000001", id), u6[:16]))},
		{name: "a later fragment is copied", pkt: ip4(far4, node4, 17, 0x2002, nil, counted(8)), outcome: ok,
			want: one(ip6(far6, node6, 44, bin("11000011", id), counted(8)))},
		{name: "a large packet with DF crosses whole", pkt: udp4(far4, node4, 0x4000, 1480-28), outcome: ok,
			want: one(udp6(far6, node6, 1480-28))},
		{name: "a large packet without DF is fragmented to 1280", pkt: ip4(far4, node4, 50, 0, nil, counted(1241)), outcome: ok,
			want: [][]byte{ip6(far6, node6, 44, bin("32000001", id), counted(1232)),
				ip6(far6, node6, 44, bin("320004d0", id), counted(1241)[1232:])}},
		{name: "to more if the network is known to carry it", outcome: ok,
			set: func(c *translate.Config) { c.LowestIPv6MTU = 1500 },
			pkt: udp4(far4, node4, 0, 1480-28), want: one(udp6(far6, node6, 1480-28))},
		{name: "a large fragment is fragmented further", pkt: ip4(far4, node4, 50, 0x2003, nil, counted(1240)), outcome: ok,
			want: [][]byte{ip6(far6, node6, 44, bin("32000019", id), counted(1232)),
				ip6(far6, node6, 44, bin("320004e9", id), counted(1240)[1232:])}},
		{name: "between two mapped nodes the far one appears by the prefix", outcome: ok,
			pkt:  udp4("198.51.100.8", node4, 0, 3),
			want: one(udp6("2001:db8:1c6:3364:8::", node6, 3))},
		{name: "to a node with an IPv4-translatable address", pkt: udp4(far4, "192.0.2.133", 0, 3), outcome: ok,
			want: one(udp6(far6, "2001:db8:1c0:2:85::", 3))},
	})
}

func TestIPv4PacketsThatAreNotTranslated(t *testing.T) {
	u := udpSegment(far4, node4, 9)
	good := ip4(far4, node4, 17, 0, nil, u)
	from := func(src string) []byte { return ip4(src, node4, 17, 0, nil, u) }
	to := func(dst string) []byte { return ip4(far4, dst, 17, 0, nil, u) }
	options := func(hex string) []byte { return ip4(far4, node4, 17, 0, bin(hex), u) }
	other := func(p byte) []byte { return ip4(far4, node4, p, 0, nil, counted(20)) }
	echo := icmpMessage(far4, node4, 8, 0, "00070001", counted(5))
	wrong := bytes.Clone(good)
	wrong[10] ^= 1
	const prohibited = "030d 00000000"
	runVectors(t, []vector{
		{name: "19 bytes are no header", pkt: good[:19], outcome: state.DropTruncated},
		{name: "version 4 with 16 bytes of header", pkt: with(good, 0, 0x44), outcome: state.DropBadHeader},
		{name: "total length below the header", pkt: with(good, 2, 0, 19), outcome: state.DropBadHeader},
		{name: "total length beyond the packet", pkt: with(good, 2, 0, 38), outcome: state.DropTruncated},
		{name: "a wrong header checksum", pkt: wrong, outcome: state.DropIpv4Checksum},
		{name: "multicast stays", pkt: to("239.1.2.3"), outcome: state.PassLinkScope},
		{name: "broadcast stays", pkt: to("255.255.255.255"), outcome: state.PassLinkScope},
		{name: "link-local stays", pkt: to("169.254.1.1"), outcome: state.PassLinkScope},
		{name: "what stands for no IPv6 node stays", pkt: to("192.0.2.43"), outcome: state.PassNotTranslated},
		{name: "from 127.0.0.1", pkt: from("127.0.0.1"), outcome: state.DropIllegalAddress},
		{name: "from 0.0.0.0", pkt: from("0.0.0.0"), outcome: state.DropIllegalAddress},
		{name: "from a group", pkt: from("224.0.0.5"), outcome: state.DropIllegalAddress},
		{name: "from class E", pkt: from("240.0.0.1"), outcome: state.DropIllegalAddress},
		{name: "from broadcast", pkt: from("255.255.255.255"), outcome: state.DropIllegalAddress},
		{name: "a source without translation", set: noPrefix, pkt: good, outcome: state.DropSourceUnmapped, reply: prohibited},
		{name: "a destination without translation", set: noPrefix, pkt: to("192.0.2.133"),
			outcome: state.DropDestinationUnmapped, reply: prohibited},
		{name: "a TTL of one", set: decrement, pkt: with(good, 8, 1), outcome: state.DropHopLimit, reply: "0b00 00000000"},
		{name: "a loose source route", pkt: options("83 07 04 c0000201 00"), outcome: state.DropSourceRoute, reply: "0305 00000000"},
		{name: "a strict source route after a no-op", pkt: options("01 89 07 07 c0000201"), outcome: state.DropSourceRoute, reply: "0305 00000000"},
		{name: "an option of length zero", pkt: options("07000000"), outcome: state.DropBadHeader},
		{name: "an option beyond the header", pkt: options("07050000"), outcome: state.DropBadHeader},
		{name: "an option without length", pkt: options("01010144"), outcome: state.DropBadHeader},
		{name: "a source route without pointer", pkt: options("83020000"), outcome: state.DropBadHeader},
		{name: "IGMP, silently", pkt: other(2), outcome: state.DropProtocol},
		{name: "an authentication header", pkt: other(51), outcome: state.DropProtocol, reply: prohibited},
		{name: "ICMPv6 in IPv4", pkt: other(58), outcome: state.DropProtocol, reply: prohibited},
		{name: "what IPv6 would take for a fragment header", pkt: other(44), outcome: state.DropProtocol, reply: prohibited},
		{name: "19 bytes of TCP", pkt: ip4(far4, node4, 6, 0, nil, counted(19)), outcome: state.DropTruncated},
		{name: "a UDP length beyond the payload", pkt: ip4(far4, node4, 17, 0, nil, with(u, 4, 0, 18)), outcome: state.DropBadHeader},
		{name: "no UDP checksum", pkt: ip4(far4, node4, 17, 0, nil, zeroUDP(u)), outcome: state.DropUdpZeroChecksum, reply: prohibited},
		{name: "no UDP checksum in a first fragment, which cannot be computed", set: computeUDP,
			pkt: ip4(far4, node4, 17, 0x2000, nil, zeroUDP(u)[:16]), outcome: state.DropUdpZeroChecksum, reply: prohibited},
		{name: "a fragment of ICMP", pkt: ip4(far4, node4, 1, 0x2000, nil, echo[:8]), outcome: state.DropIcmpFragment},
		{name: "a fragment beyond 65535 bytes", pkt: ip4(far4, node4, 17, 0x1fff, nil, counted(8)), outcome: state.DropBadHeader},
		{name: "an ICMP timestamp", pkt: ip4(far4, node4, 1, 0, nil, icmpMessage(far4, node4, 13, 0, "00000000", counted(12))), outcome: state.DropIcmpType},
		{name: "DF and too large for IPv6", pkt: udp4(far4, node4, 0x4000, 1481-28), outcome: state.DropTooBig, reply: "0304 000005c8"},
		{name: "DF and too large only with the fragment header", outcome: state.DropTooBig, reply: "0304 000005c0",
			pkt: ip4(far4, node4, 50, 0x6000, nil, counted(1456))},
		{name: "DF and too large, in a later fragment, silently", pkt: ip4(far4, node4, 50, 0x4001, nil, counted(1456)), outcome: state.DropTooBig},
	})
}
