package nat64table

import (
	"bytes"
	"strings"
	"testing"

	"weft/internal/datapath/datapathtest"
	"weft/internal/state"
)

func TestIPv6PacketsThatAreRefused(t *testing.T) {
	u := datapathtest.Udp(datapathtest.Node6, datapathtest.Far6, 9)
	good := u.Bytes()
	from := func(src string) []byte { return datapathtest.Udp(src, datapathtest.Far6, 9).Bytes() }
	to := func(dst string) []byte { return datapathtest.Udp(datapathtest.Node6, dst, 9).Bytes() }
	carrying := func(protocol byte, options string, payload []byte) []byte {
		return datapathtest.Packet{From: datapathtest.Node6, To: datapathtest.Far6, Protocol: protocol, Options: datapathtest.Bin(options), Payload: payload}.Bytes()
	}
	nine := strings.Repeat("3c00010400000000", 8) + "1100010400000000"
	runVectors(t, datapathtest.Usual, []vector{
		{"a payload length that says more than there is", datapathtest.With(good, 5, 18), state.DropTruncated, nil, nil},
		{"to a group", to("ff02::1"), state.PassLinkScope, nil, nil},
		{"to a neighbour", to("fe80::1"), state.PassLinkScope, nil, nil},
		{"to another prefix", to("2001:db9::1"), state.PassNotTranslated, nil, nil},
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
		{"nine extension headers", carrying(60, nine, u.Payload), state.SlowErrorDue, nil, nil},
		{"an extension header longer than the packet", carrying(60, "1109010400000000", u.Payload), state.DropTruncated, nil, nil},
		{"an extension header that is cut off", carrying(60, "11000104", nil), state.DropTruncated, nil, nil},
		{"an authentication header", carrying(51, "110100000000000100000001", u.Payload), state.SlowErrorDue, nil, nil},
		{"ICMPv4 in IPv6", carrying(1, "", datapathtest.Counting(8)), state.SlowErrorDue, nil, nil},
		{"IGMP in IPv6", carrying(2, "", datapathtest.Counting(8)), state.SlowErrorDue, nil, nil},
		{"19 bytes of TCP", carrying(6, "", datapathtest.Counting(19)), state.DropTruncated, nil, nil},
		{"7 bytes of UDP", carrying(17, "", datapathtest.Counting(7)), state.DropTruncated, nil, nil},
		{"7 bytes of ICMPv6", carrying(58, "", datapathtest.Counting(7)), state.DropTruncated, nil, nil},
		{"19 bytes of TCP in a frame that is padded", datapathtest.With(append(carrying(6, "", datapathtest.Counting(19)), 0, 0, 0, 0), 5, 19), state.DropTruncated, nil, nil},
		{"a UDP length that says more than there is", carrying(17, "", datapathtest.With(u.Payload, 4, 0, 18)), state.DropBadHeader, nil, nil},
		{"a UDP length of seven", carrying(17, "", datapathtest.With(u.Payload, 4, 0, 7)), state.DropBadHeader, nil, nil},
		{"a neighbour solicitation for an unknown address", carrying(58, "", datapathtest.Message(datapathtest.Node6, datapathtest.Far6, 135, 0, "00000000", datapathtest.Counting(16))), state.DropIcmpType, nil, nil},
		{"a multicast listener report", carrying(58, "", datapathtest.Message(datapathtest.Node6, datapathtest.Far6, 143, 0, "00000000", nil)), state.DropIcmpType, nil, nil},
		{"an unassigned ICMPv6 type", carrying(58, "", datapathtest.Message(datapathtest.Node6, datapathtest.Far6, 200, 0, "00000000", nil)), state.DropIcmpType, nil, nil},
	})
}

func TestIPv4PacketsThatAreRefused(t *testing.T) {
	u := datapathtest.Udp(datapathtest.Far4, datapathtest.Node4, 9)
	good := u.Bytes()
	from := func(src string) []byte { return datapathtest.Udp(src, datapathtest.Node4, 9).Bytes() }
	to := func(dst string) []byte { return datapathtest.Udp(datapathtest.Far4, dst, 9).Bytes() }
	options := func(hex string) []byte {
		p := u
		p.Options = datapathtest.Bin(hex)
		return p.Bytes()
	}
	carrying := func(protocol byte, payload []byte) []byte {
		return datapathtest.Packet{From: datapathtest.Far4, To: datapathtest.Node4, Protocol: protocol, Payload: payload}.Bytes()
	}
	runVectors(t, datapathtest.Usual, []vector{
		{"a header of 16 bytes", datapathtest.Healed(datapathtest.With(good, 0, 0x44)), state.DropBadHeader, nil, nil},
		{"a total length of less than the header", datapathtest.Healed(datapathtest.With(good, 2, 0, 19)), state.DropBadHeader, nil, nil},
		{"a total length that says more than there is", datapathtest.Healed(datapathtest.With(good, 2, 0, 38)), state.DropTruncated, nil, nil},
		{"a wrong header checksum", datapathtest.With(good, 10, good[10]^1), state.DropIpv4Checksum, nil, nil},
		{"a wrong header checksum over options", datapathtest.With(options("01010101"), 20, 2), state.DropIpv4Checksum, nil, nil},
		{"to a group", to("239.1.2.3"), state.PassLinkScope, nil, nil},
		{"to everybody", to("255.255.255.255"), state.PassLinkScope, nil, nil},
		{"to a neighbour", to("169.254.1.1"), state.PassLinkScope, nil, nil},
		{"to another prefix", to("9.9.9.9"), state.PassNotTranslated, nil, nil},
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
		{"IGMP", carrying(2, datapathtest.Counting(20)), state.DropProtocol, nil, nil},
		{"an authentication header", carrying(51, datapathtest.Counting(20)), state.SlowErrorDue, nil, nil},
		{"ICMPv6 in IPv4", carrying(58, datapathtest.Counting(20)), state.SlowErrorDue, nil, nil},
		{"what IPv6 would take for hop-by-hop options", carrying(0, datapathtest.Counting(20)), state.SlowErrorDue, nil, nil},
		{"what IPv6 would take for a routing header", carrying(43, datapathtest.Counting(20)), state.SlowErrorDue, nil, nil},
		{"what IPv6 would take for a fragment header", carrying(44, datapathtest.Counting(20)), state.SlowErrorDue, nil, nil},
		{"what IPv6 would take for destination options", carrying(60, datapathtest.Counting(20)), state.SlowErrorDue, nil, nil},
		{"19 bytes of TCP", carrying(6, datapathtest.Counting(19)), state.DropTruncated, nil, nil},
		{"7 bytes of UDP", carrying(17, datapathtest.Counting(7)), state.DropTruncated, nil, nil},
		{"7 bytes of ICMP", carrying(1, datapathtest.Counting(7)), state.DropTruncated, nil, nil},
		{"a UDP length that says more than there is", carrying(17, datapathtest.With(u.Payload, 4, 0, 18)), state.DropBadHeader, nil, nil},
		{"a UDP length of seven", carrying(17, datapathtest.With(u.Payload, 4, 0, 7)), state.DropBadHeader, nil, nil},
		{"UDP without checksum", carrying(17, datapathtest.With(u.Payload, 6, 0, 0)), state.SlowErrorDue, nil, nil},
		{"an ICMP timestamp request", carrying(1, datapathtest.Message(datapathtest.Far4, datapathtest.Node4, 13, 0, "00000000", datapathtest.Counting(12))), state.DropIcmpType, nil, nil},
		{"an ICMP redirect", carrying(1, datapathtest.Message(datapathtest.Far4, datapathtest.Node4, 5, 1, "00000000", datapathtest.Counting(28))), state.DropIcmpType, nil, nil},
	})
}

// Every packet cut at every byte, its lengths as they were: all of it is
// dropped for one reason, and nothing is written.
func TestPacketsCutAnywhereAreDroppedWhole(t *testing.T) {
	options := datapathtest.Udp(datapathtest.Far4, datapathtest.Node4, 30)
	options.Options = datapathtest.Bin("01 830708c0000201 00 ffffff")
	behind := datapathtest.Udp(datapathtest.Node6, datapathtest.Far6, 30)
	behind.Protocol, behind.Options = 60, datapathtest.Bin("1100010400000000")
	b := newBench(t, datapathtest.Usual, parts()...)
	for _, r := range datapathtest.Variants() {
		b.TakeVariant(r)
		for _, whole := range [][]byte{
			datapathtest.Udp(datapathtest.Node6, datapathtest.Far6, 30).Bytes(), datapathtest.Tcp(datapathtest.Node6, datapathtest.Far6, 2, datapathtest.Bin("020405a0"), 9).Bytes(), datapathtest.Echo(datapathtest.Node6, datapathtest.Far6, false, 9).Bytes(), behind.Bytes(),
			datapathtest.Udp(datapathtest.Far4, datapathtest.Node4, 30).Bytes(), datapathtest.Tcp(datapathtest.Far4, datapathtest.Node4, 2, datapathtest.Bin("020405a0"), 9).Bytes(), datapathtest.Echo(datapathtest.Far4, datapathtest.Node4, false, 9).Bytes(), options.Bytes(),
		} {
			if datapathtest.IsIPv4(whole) && !r.Takes4 {
				continue
			}
			device := r.From(whole)
			for n := range len(whole) {
				frame := b.Frame(datapathtest.Side(whole), whole)[:14+n]
				res := b.Run(r.Program, device, frame)[0]
				if datapathtest.Refused(res, frame) {
					continue
				}
				if err := r.Check(b.Bench, frame, res, state.DropTruncated, nil); err != nil {
					t.Errorf("%s: %x cut to %d: %v", r.Name, whole[:20], n, err)
				}
			}
		}
	}
}

func TestAFrameForAnotherStationIsNotTouched(t *testing.T) {
	b := newBench(t, datapathtest.Usual, parts()...)
	for _, r := range datapathtest.Variants()[:2] {
		b.TakeVariant(r)
		for _, p := range []datapathtest.Packet{datapathtest.Udp(datapathtest.Node6, datapathtest.Far6, 9), datapathtest.Udp(datapathtest.Far4, datapathtest.Node4, 9)} {
			frame := datapathtest.With(b.Frame(datapathtest.Side(p.Bytes()), p.Bytes()), 0, 0x02, 0x99)
			res := b.Run(r.Program, datapathtest.Side(p.Bytes()), frame)[0]
			if err := r.Check(b.Bench, frame, res, state.PassNotForUs, nil); err != nil {
				t.Errorf("%s from %s: %v", r.Name, p.From, err)
			}
		}
	}
}

func TestAnotherVersionThanTheFrameSaysIsNoPacket(t *testing.T) {
	b := newBench(t, datapathtest.Usual, parts()...)
	for _, r := range datapathtest.Variants() {
		b.TakeVariant(r)
		for _, p := range []datapathtest.Packet{datapathtest.Udp(datapathtest.Node6, datapathtest.Far6, 9), datapathtest.Udp(datapathtest.Far4, datapathtest.Node4, 9)} {
			ip := p.Bytes()
			if datapathtest.IsIPv4(ip) && !r.Takes4 {
				continue
			}
			for version := range byte(16) {
				frame := datapathtest.With(b.Frame(datapathtest.Side(ip), ip), 14, version<<4|ip[0]&15)
				if version == ip[0]>>4 {
					continue
				}
				res := b.Run(r.Program, r.From(ip), frame)[0]
				if err := r.Check(b.Bench, frame, res, state.DropBadHeader, nil); err != nil {
					t.Errorf("%s: version %d from %s: %v", r.Name, version, p.From, err)
				}
			}
		}
	}
}

func TestWhatIsNoIPPasses(t *testing.T) {
	b := newBench(t, datapathtest.Usual, parts()...)
	for _, r := range datapathtest.Variants()[:3] {
		b.TakeVariant(r)
		frame := datapathtest.With(b.Frame("lan", datapathtest.Counting(50)), 12, 0x88, 0xcc) // LLDP
		res := b.Run(r.Program, "lan", frame)[0]
		if err := r.Check(b.Bench, frame, res, state.PassNotIp, nil); err != nil {
			t.Errorf("%s: %v", r.Name, err)
		}
	}
}

func TestAnInterfaceThatIsNotServedGetsNoTranslation(t *testing.T) {
	b := newBench(t, datapathtest.Usual, parts()...)
	for _, r := range datapathtest.Variants() {
		b.SetPorts(func(p *state.IngressEntry) { p.Translators, p.Roles = 0, p.Roles.With(state.RoleBypass, r.Bypass) })
		for _, p := range []datapathtest.Packet{datapathtest.Udp(datapathtest.Node6, datapathtest.Far6, 9), datapathtest.Udp(datapathtest.Far4, datapathtest.Node4, 9)} {
			if datapathtest.IsIPv4(p.Bytes()) && !r.Takes4 {
				continue
			}
			frame := b.Frame(datapathtest.Side(p.Bytes()), p.Bytes())
			res := b.Run(r.Program, datapathtest.Side(p.Bytes()), frame)[0]
			if err := r.Check(b.Bench, frame, res, state.DropInterface, nil); err != nil {
				t.Errorf("%s from %s: %v", r.Name, p.From, err)
			}
		}
	}
}

func TestADeviceThatWeftDoesNotKnowIsLeftAlone(t *testing.T) {
	b := newBench(t, datapathtest.Usual, parts()...)
	frame := b.Frame("lan-far", datapathtest.Udp(datapathtest.Node6, datapathtest.Far6, 9).Bytes())
	for _, program := range []string{"ingress_tc"} {
		res := b.Run(program, "lan-far", frame)[0]
		if res.Err != nil || len(res.Counted) != 0 || !bytes.Equal(res.Frame, frame) || int32(res.Verdict) != -1 {
			t.Errorf("%s: %v, counted %v, returned %d", program, res.Err, res.Counted, int32(res.Verdict))
		}
	}
}

func TestTheSlowPathsShareIsCountedOnceOnItsWay(t *testing.T) {
	b := newBench(t, datapathtest.Usual, parts()...)
	p := datapathtest.Udp(datapathtest.Node6, datapathtest.Far6, 24)
	p.Protocol, p.Options = 44, datapathtest.Bin("11000001aaaa1234")
	frame := b.Frame("lan", p.Bytes())
	handed := b.Run("ingress_tc", "lan", frame)[0]
	if err := datapathtest.Differs(datapathtest.Result{Verdict: handed.Verdict}, state.SlowFragment, state.SlowFragment, 7, nil); err != nil || handed.Counted["ingress_tc slow-fragment"] != 1 {
		t.Fatalf("%v, counted %v", err, handed.Counted)
	}
	frame = handed.Frame
	res := b.Run("translator_egress", "lan", frame)[0]
	if res.Err != nil || len(res.Counted) != 0 || int32(res.Verdict) != -1 || !bytes.Equal(res.Frame, frame) {
		t.Errorf("%v, counted %v, returned %d: ingress_tc has counted it already", res.Err, res.Counted, int32(res.Verdict))
	}
}

func TestATTLThatRunsOutHereIsTheStacksMatter(t *testing.T) {
	for _, ttl := range []byte{1, 255} { // and one that does not
		six, four := datapathtest.Udp(datapathtest.Node6, datapathtest.Far6, 9), datapathtest.Udp(datapathtest.Far4, datapathtest.Node4, 9)
		out4, out6 := datapathtest.Udp(datapathtest.Node4, datapathtest.Far4, 9), datapathtest.Udp(datapathtest.Far6, datapathtest.Node6, 9)
		six.Ttl, four.Ttl, out4.Ttl, out6.Ttl = ttl, ttl, ttl, ttl
		var except6, except4 map[string]state.Outcome
		if ttl == 1 {
			// by TC the stack sees IPv4 and says so itself
			except6 = map[string]state.Outcome{"xdp": state.PassTtl, "tc": state.Forward6to4}
			except4 = map[string]state.Outcome{"xdp": state.PassTtl, "tc": state.PassTtl}
		}
		runVectors(t, datapathtest.Usual, []vector{
			{"IPv6", six.Bytes(), to4, out4.Bytes(), except6},
			{"IPv4", four.Bytes(), to6, out6.Bytes(), except4},
		})
	}
}

func TestWhatIsTooLargeForTheOtherSideIsToldBySlowPath(t *testing.T) {
	wide, out := datapathtest.Udp(datapathtest.Far4, datapathtest.Node4, 1500-28), datapathtest.Udp(datapathtest.Far6, datapathtest.Node6, 1500-28)
	wide.Flags = datapathtest.Df
	runVectors(t, datapathtest.Usual, []vector{{"1500 bytes with DF, which become 1520", wide.Bytes(), to6, out.Bytes(),
		map[string]state.Outcome{"xdp": state.PassTooBig, "tc": state.PassTooBig, "translator": state.SlowTooBig}}})
}
