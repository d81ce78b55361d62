package datapath

import (
	"bytes"
	"strings"
	"testing"

	"weft/internal/state"
)

func TestIPv6PacketsThatAreRefused(t *testing.T) {
	u := udp(node6, far6, 9)
	good := u.bytes()
	from := func(src string) []byte { return udp(src, far6, 9).bytes() }
	to := func(dst string) []byte { return udp(node6, dst, 9).bytes() }
	carrying := func(protocol byte, options string, payload []byte) []byte {
		return packet{from: node6, to: far6, protocol: protocol, options: bin(options), payload: payload}.bytes()
	}
	nine := strings.Repeat("3c00010400000000", 8) + "1100010400000000"
	runVectors(t, usual, []vector{
		{"a payload length that says more than there is", with(good, 5, 18), state.DropTruncated, nil, nil},
		{"to a group", to("ff02::1"), state.PassLinkScope, nil, nil},
		{"to a neighbour", to("fe80::1"), state.PassLinkScope, nil, nil},
		{"to somebody else", to("2001:db9::1"), state.PassNotTranslated, nil, nil},
		{"to an IPv6 node with a mapping", to("2001:db8:3::8"), state.PassNotTranslated, nil, nil},
		{"from nowhere", from("::"), state.DropIllegalAddress, nil, nil},
		{"from loopback", from("::1"), state.DropIllegalAddress, nil, nil},
		{"from a group", from("ff0e::1"), state.DropIllegalAddress, nil, nil},
		{"from a link-local address", from("fe80::1"), state.DropIllegalAddress, nil, nil},
		{"to 127.0.0.1", to("64:ff9b:1::127.0.0.1"), state.DropIllegalAddress, nil, nil},
		{"to 0.1.2.3", to("64:ff9b:1::0.1.2.3"), state.DropIllegalAddress, nil, nil},
		{"to 224.0.0.1", to("64:ff9b:1::224.0.0.1"), state.DropIllegalAddress, nil, nil},
		{"to 240.0.0.1", to("64:ff9b:1::240.0.0.1"), state.DropIllegalAddress, nil, nil},
		{"to 255.255.255.255", to("64:ff9b:1::255.255.255.255"), state.DropIllegalAddress, nil, nil},
		{"nine extension headers", carrying(60, nine, u.payload), state.SlowErrorDue, nil, nil},
		{"an extension header longer than the packet", carrying(60, "1109010400000000", u.payload), state.DropTruncated, nil, nil},
		{"an extension header that is cut off", carrying(60, "11000104", nil), state.DropTruncated, nil, nil},
		{"an authentication header", carrying(51, "110100000000000100000001", u.payload), state.SlowErrorDue, nil, nil},
		{"ICMPv4 in IPv6", carrying(1, "", counting(8)), state.SlowErrorDue, nil, nil},
		{"IGMP in IPv6", carrying(2, "", counting(8)), state.SlowErrorDue, nil, nil},
		{"19 bytes of TCP", carrying(6, "", counting(19)), state.DropTruncated, nil, nil},
		{"7 bytes of UDP", carrying(17, "", counting(7)), state.DropTruncated, nil, nil},
		{"7 bytes of ICMPv6", carrying(58, "", counting(7)), state.DropTruncated, nil, nil},
		{"19 bytes of TCP in a frame that is padded", with(append(carrying(6, "", counting(19)), 0, 0, 0, 0), 5, 19), state.DropTruncated, nil, nil},
		{"a UDP length that says more than there is", carrying(17, "", with(u.payload, 4, 0, 18)), state.DropBadHeader, nil, nil},
		{"a UDP length of seven", carrying(17, "", with(u.payload, 4, 0, 7)), state.DropBadHeader, nil, nil},
		{"a neighbour solicitation to nobody here", carrying(58, "", message(node6, far6, 135, 0, "00000000", counting(16))), state.DropIcmpType, nil, nil},
		{"a multicast listener report", carrying(58, "", message(node6, far6, 143, 0, "00000000", nil)), state.DropIcmpType, nil, nil},
		{"an ICMPv6 type that nobody has assigned", carrying(58, "", message(node6, far6, 200, 0, "00000000", nil)), state.DropIcmpType, nil, nil},
	})
}

func TestIPv4PacketsThatAreRefused(t *testing.T) {
	u := udp(far4, node4, 9)
	good := u.bytes()
	from := func(src string) []byte { return udp(src, node4, 9).bytes() }
	to := func(dst string) []byte { return udp(far4, dst, 9).bytes() }
	options := func(hex string) []byte {
		p := u
		p.options = bin(hex)
		return p.bytes()
	}
	carrying := func(protocol byte, payload []byte) []byte {
		return packet{from: far4, to: node4, protocol: protocol, payload: payload}.bytes()
	}
	runVectors(t, usual, []vector{
		{"a header of 16 bytes", healed(with(good, 0, 0x44)), state.DropBadHeader, nil, nil},
		{"a total length of less than the header", healed(with(good, 2, 0, 19)), state.DropBadHeader, nil, nil},
		{"a total length that says more than there is", healed(with(good, 2, 0, 38)), state.DropTruncated, nil, nil},
		{"a wrong header checksum", with(good, 10, good[10]^1), state.DropIpv4Checksum, nil, nil},
		{"a wrong header checksum over options", with(options("01010101"), 20, 2), state.DropIpv4Checksum, nil, nil},
		{"to a group", to("239.1.2.3"), state.PassLinkScope, nil, nil},
		{"to everybody", to("255.255.255.255"), state.PassLinkScope, nil, nil},
		{"to a neighbour", to("169.254.1.1"), state.PassLinkScope, nil, nil},
		{"to somebody else", to("9.9.9.9"), state.PassNotTranslated, nil, nil},
		{"to an IPv4 node with a mapping", to("203.0.113.200"), state.PassNotTranslated, nil, nil},
		{"from loopback", from("127.0.0.1"), state.DropIllegalAddress, nil, nil},
		{"from nowhere", from("0.0.0.0"), state.DropIllegalAddress, nil, nil},
		{"from a group", from("224.0.0.5"), state.DropIllegalAddress, nil, nil},
		{"from class E", from("240.0.0.1"), state.DropIllegalAddress, nil, nil},
		{"from everybody", from("255.255.255.255"), state.DropIllegalAddress, nil, nil},
		{"an option of length zero", options("07000000"), state.DropBadHeader, nil, nil},
		{"an option of length one", options("01014401"), state.DropBadHeader, nil, nil},
		{"an option beyond the header", options("07050000"), state.DropBadHeader, nil, nil},
		{"an option without length", options("01010144"), state.DropBadHeader, nil, nil},
		{"a source route without pointer", options("83020000"), state.DropBadHeader, nil, nil},
		{"a strict source route without pointer at the end", options("01018902"), state.DropBadHeader, nil, nil},
		{"IGMP", carrying(2, counting(20)), state.DropProtocol, nil, nil},
		{"an authentication header", carrying(51, counting(20)), state.SlowErrorDue, nil, nil},
		{"ICMPv6 in IPv4", carrying(58, counting(20)), state.SlowErrorDue, nil, nil},
		{"what IPv6 would take for hop-by-hop options", carrying(0, counting(20)), state.SlowErrorDue, nil, nil},
		{"what IPv6 would take for a routing header", carrying(43, counting(20)), state.SlowErrorDue, nil, nil},
		{"what IPv6 would take for a fragment header", carrying(44, counting(20)), state.SlowErrorDue, nil, nil},
		{"what IPv6 would take for destination options", carrying(60, counting(20)), state.SlowErrorDue, nil, nil},
		{"19 bytes of TCP", carrying(6, counting(19)), state.DropTruncated, nil, nil},
		{"7 bytes of UDP", carrying(17, counting(7)), state.DropTruncated, nil, nil},
		{"7 bytes of ICMP", carrying(1, counting(7)), state.DropTruncated, nil, nil},
		{"a UDP length that says more than there is", carrying(17, with(u.payload, 4, 0, 18)), state.DropBadHeader, nil, nil},
		{"a UDP length of seven", carrying(17, with(u.payload, 4, 0, 7)), state.DropBadHeader, nil, nil},
		{"UDP without checksum", carrying(17, with(u.payload, 6, 0, 0)), state.SlowErrorDue, nil, nil},
		{"an ICMP timestamp request", carrying(1, message(far4, node4, 13, 0, "00000000", counting(12))), state.DropIcmpType, nil, nil},
		{"an ICMP redirect", carrying(1, message(far4, node4, 5, 1, "00000000", counting(28))), state.DropIcmpType, nil, nil},
	})
}

// Every packet cut at every byte, its lengths as they were: all of it is
// dropped for one reason, and nothing is written.
func TestPacketsCutAnywhereAreDroppedWhole(t *testing.T) {
	options := udp(far4, node4, 30)
	options.options = bin("01 830708c0000201 00 ffffff")
	behind := udp(node6, far6, 30)
	behind.protocol, behind.options = 60, bin("1100010400000000")
	b := newBench(t, usual)
	for _, r := range roads() {
		b.takeRoad(r)
		for _, whole := range [][]byte{
			udp(node6, far6, 30).bytes(), tcp(node6, far6, 2, bin("020405a0"), 9).bytes(), echo(node6, far6, false, 9).bytes(), behind.bytes(),
			udp(far4, node4, 30).bytes(), tcp(far4, node4, 2, bin("020405a0"), 9).bytes(), echo(far4, node4, false, 9).bytes(), options.bytes(),
		} {
			if isIPv4(whole) && !r.takes4 {
				continue
			}
			device := r.from(whole)
			for n := range len(whole) {
				frame := b.frame(side(whole), whole)[:14+n]
				res := b.run(r.program, device, frame)[0]
				if refused(res, frame) {
					continue
				}
				if err := r.check(b, frame, res, state.DropTruncated, nil); err != nil {
					t.Errorf("%s: %x cut to %d: %v", r.name, whole[:20], n, err)
				}
			}
		}
	}
}

// refused tells that the kernel's test run would not take the frame: it wants
// 20 bytes behind a header that says IPv4, 40 behind one that says IPv6.
func refused(res result, frame []byte) bool {
	least := 14 + 20
	if frame[12] == 0x86 {
		least = 14 + 40
	}
	return res.err != nil && len(frame) < least && len(res.counted) == 0
}

func TestAFrameForAnotherStationIsNotTouched(t *testing.T) {
	b := newBench(t, usual)
	for _, r := range roads()[:2] {
		b.takeRoad(r)
		for _, p := range []packet{udp(node6, far6, 9), udp(far4, node4, 9)} {
			frame := with(b.frame(side(p.bytes()), p.bytes()), 0, 0x02, 0x99)
			res := b.run(r.program, side(p.bytes()), frame)[0]
			if err := r.check(b, frame, res, state.PassNotForUs, nil); err != nil {
				t.Errorf("%s from %s: %v", r.name, p.from, err)
			}
		}
	}
}

func TestAnotherVersionThanTheFrameSaysIsNoPacket(t *testing.T) {
	b := newBench(t, usual)
	for _, r := range roads() {
		b.takeRoad(r)
		for _, p := range []packet{udp(node6, far6, 9), udp(far4, node4, 9)} {
			ip := p.bytes()
			if isIPv4(ip) && !r.takes4 {
				continue
			}
			for version := range byte(16) {
				frame := with(b.frame(side(ip), ip), 14, version<<4|ip[0]&15)
				if version == ip[0]>>4 {
					continue
				}
				res := b.run(r.program, r.from(ip), frame)[0]
				if err := r.check(b, frame, res, state.DropBadHeader, nil); err != nil {
					t.Errorf("%s: version %d from %s: %v", r.name, version, p.from, err)
				}
			}
		}
	}
}

func TestWhatIsNoIPPasses(t *testing.T) {
	b := newBench(t, usual)
	for _, r := range roads()[:3] {
		b.takeRoad(r)
		frame := with(b.frame("lan", counting(50)), 12, 0x88, 0xcc) // LLDP
		res := b.run(r.program, "lan", frame)[0]
		if err := r.check(b, frame, res, state.PassNotIp, nil); err != nil {
			t.Errorf("%s: %v", r.name, err)
		}
	}
}

func TestAnInterfaceThatIsNotServedGetsNoTranslation(t *testing.T) {
	b := newBench(t, usual)
	for _, r := range roads() {
		b.setPorts(func(p *state.Port) { p.Translators, p.Roles = 0, p.Roles.With(state.RoleShortcut, r.shortcut) })
		for _, p := range []packet{udp(node6, far6, 9), udp(far4, node4, 9)} {
			if isIPv4(p.bytes()) && !r.takes4 {
				continue
			}
			frame := b.frame(side(p.bytes()), p.bytes())
			res := b.run(r.program, side(p.bytes()), frame)[0]
			if err := r.check(b, frame, res, state.DropInterface, nil); err != nil {
				t.Errorf("%s from %s: %v", r.name, p.from, err)
			}
		}
	}
}

func TestADeviceThatWeftDoesNotKnowIsLeftAlone(t *testing.T) {
	b := newBench(t, usual)
	frame := b.frame("lan-far", udp(node6, far6, 9).bytes())
	for _, program := range []string{"ingress_tc"} {
		res := b.run(program, "lan-far", frame)[0]
		if res.err != nil || len(res.counted) != 0 || !bytes.Equal(res.frame, frame) || int32(res.verdict) != -1 {
			t.Errorf("%s: %v, counted %v, returned %d", program, res.err, res.counted, int32(res.verdict))
		}
	}
}

func TestTheSlowPathsShareIsCountedOnceOnItsWay(t *testing.T) {
	b := newBench(t, usual)
	p := udp(node6, far6, 24)
	p.protocol, p.options = 44, bin("11000001aaaa1234")
	frame := b.frame("lan", p.bytes())
	handed := b.run("ingress_tc", "lan", frame)[0]
	if err := differs(result{verdict: handed.verdict}, state.SlowFragment, state.SlowFragment, 7, nil); err != nil || handed.counted["ingress_tc slow-fragment"] != 1 {
		t.Fatalf("%v, counted %v", err, handed.counted)
	}
	frame = handed.frame
	res := b.run("translator_egress", "lan", frame)[0]
	if res.err != nil || len(res.counted) != 0 || int32(res.verdict) != -1 || !bytes.Equal(res.frame, frame) {
		t.Errorf("%v, counted %v, returned %d: ingress_tc has counted it already", res.err, res.counted, int32(res.verdict))
	}
}

func TestATTLThatRunsOutHereIsTheStacksMatter(t *testing.T) {
	for _, ttl := range []byte{1, 255} { // and one that does not
		six, four := udp(node6, far6, 9), udp(far4, node4, 9)
		out4, out6 := udp(node4, far4, 9), udp(far6, node6, 9)
		six.ttl, four.ttl, out4.ttl, out6.ttl = ttl, ttl, ttl, ttl
		var except6, except4 map[string]state.Outcome
		if ttl == 1 {
			// by TC the stack sees IPv4 and says so itself
			except6 = map[string]state.Outcome{"xdp": state.PassTtl, "tc": state.Forward6to4}
			except4 = map[string]state.Outcome{"xdp": state.PassTtl, "tc": state.PassTtl}
		}
		runVectors(t, usual, []vector{
			{"IPv6", six.bytes(), to4, out4.bytes(), except6},
			{"IPv4", four.bytes(), to6, out6.bytes(), except4},
		})
	}
}

func TestWhatIsTooLargeForTheOtherSideIsToldBySlowPath(t *testing.T) {
	wide, out := udp(far4, node4, 1500-28), udp(far6, node6, 1500-28)
	wide.flags = df
	runVectors(t, usual, []vector{{"1500 bytes with DF, which become 1520", wide.bytes(), to6, out.bytes(),
		map[string]state.Outcome{"xdp": state.PassTooBig, "tc": state.PassTooBig, "translator": state.SlowTooBig}}})
}
