package trace

import (
	"bytes"
	"net"
	"strings"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

func icmp6(t *testing.T, ip *layers.IPv6, kind uint8, rest ...gopacket.SerializableLayer) []byte {
	t.Helper()
	ip.Version, ip.NextHeader = 6, layers.IPProtocolICMPv6
	icmp := &layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(kind, 0)}
	if err := icmp.SetNetworkLayerForChecksum(ip); err != nil {
		t.Fatal(err)
	}
	return frame(mac{1: 2}, farMAC, etherIPv6, build(t, append([]gopacket.SerializableLayer{ip, icmp}, rest...)...))
}

func arp(t *testing.T, operation uint16) []byte {
	return frame(mac{1: 2}, farMAC, etherARP, build(t, &layers.ARP{
		AddrType: layers.LinkTypeEthernet, Protocol: layers.EthernetTypeIPv4, HwAddressSize: 6, ProtAddressSize: 4, Operation: operation,
		SourceHwAddress: farMAC[:], SourceProtAddress: []byte{192, 0, 2, 1}, DstHwAddress: make([]byte, 6), DstProtAddress: []byte{192, 0, 2, 9},
	}))
}

func TestQuestionsForNeighboursAreKnownFromOtherFrames(t *testing.T) {
	from, to := net.ParseIP("fe80::1"), net.ParseIP("2001:db8::9")
	solicitation := func(hops uint8) []byte {
		return icmp6(t, &layers.IPv6{HopLimit: hops, SrcIP: from, DstIP: to}, 135, &layers.ICMPv6NeighborSolicitation{TargetAddress: to})
	}
	for _, c := range []struct {
		name  string
		frame []byte
		want  string // empty: no question
	}{
		{"an ARP request", arp(t, layers.ARPRequest), "192.0.2.9"},
		{"an ARP reply", arp(t, layers.ARPReply), ""},
		{"half an ARP request", arp(t, layers.ARPRequest)[:30], ""},
		{"a neighbour solicitation", solicitation(255), "2001:db8::9"},
		{"a solicitation that came over a router, which no stack believes", solicitation(254), ""},
		{"half a solicitation", solicitation(255)[:60], ""},
		{"an echo request", icmp6(t, &layers.IPv6{HopLimit: 255, SrcIP: from, DstIP: to}, 128, &layers.ICMPv6Echo{}, gopacket.Payload(make([]byte, 30))), ""},
		{"nothing", nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, ok := asked(c.frame)
			if ok != (c.want != "") || ok && a.String() != c.want {
				t.Errorf("it asks for %v, %v, want %q", a, ok, c.want)
			}
		})
	}
}

func TestWhatTheKernelSaysOfItsOwnAccordIsLeftOut(t *testing.T) {
	all := net.ParseIP("ff02::16")
	own := net.ParseIP("fe80::1")
	// hop-by-hop header with the router alert, then a report with one group
	mld := bytes.Clone(frame(mac{0x33, 0x33}, farMAC, etherIPv6, build(t,
		&layers.IPv6{Version: 6, HopLimit: 1, NextHeader: layers.IPProtocolIPv6HopByHop, SrcIP: own, DstIP: all},
		gopacket.Payload("\x3a\x00\x05\x02\x00\x00\x01\x00"+"\x8f\x00\x00\x00\x00\x00\x00\x01"+strings.Repeat("\x00", 20)))))
	igmp := frame(mac{1, 0, 0x5e}, farMAC, etherIPv4, build(t,
		&layers.IPv4{Version: 4, TTL: 1, Protocol: layers.IPProtocolIGMP, SrcIP: []byte{192, 0, 2, 1}, DstIP: []byte{224, 0, 0, 22}},
		gopacket.Payload("\x22"+strings.Repeat("\x00", 7))))
	for _, c := range []struct {
		name  string
		frame []byte
		want  bool
	}{
		{"a report of multicast listeners", mld, true},
		{"an IGMP report", igmp, true},
		{"a router solicitation", icmp6(t, &layers.IPv6{HopLimit: 255, SrcIP: own, DstIP: all}, 133, &layers.ICMPv6RouterSolicitation{}), true},
		{"an echo request", icmp6(t, &layers.IPv6{HopLimit: 64, SrcIP: own, DstIP: all}, 128, &layers.ICMPv6Echo{}), false},
		{"ARP", arp(t, layers.ARPRequest), false},
		{"a cut frame", mld[:40], false},
	} {
		if got := chatter(c.frame); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestABarrierIsKnownByItsSerial(t *testing.T) {
	b := barrierFrame(farMAC, 77)
	if n, ok := barrierSerial(b); !ok || n != 77 {
		t.Errorf("serial %d, %v", n, ok)
	}
	b[20] ^= 1
	if _, ok := barrierSerial(b); ok {
		t.Error("a frame of another program is taken for a barrier")
	}
}

func TestPacketsAreDescribedInOneLine(t *testing.T) {
	v4, v6 := udp4(t, "192.0.2.1", "192.0.2.2", 9, "hello"), udp6(t, "2001:db8::1", "2001:db8::2", 7, "")
	cut := bytes.Clone(v4)
	cut[6], cut[7] = 0x20, 0x10 // more fragments, offset 128
	for _, c := range []struct {
		name   string
		raw    bool
		packet []byte
		want   string
	}{
		{"raw IPv4", true, v4, "IPv4 192.0.2.1 > 192.0.2.2 ttl 9 DF, UDP 1000 > 2000, 33 bytes"},
		{"raw IPv6", true, v6, "IPv6 2001:db8::1 > 2001:db8::2 hop limit 7, UDP 1000 > 2000, 48 bytes"},
		{"a fragment", true, cut, "IPv4 192.0.2.1 > 192.0.2.2 ttl 9 fragment at 128 more true, 33 bytes"},
		{"Ethernet", false, frame(mac{2}, farMAC, etherIPv6, v6), "02:77:65:66:74:ff > 02:00:00:00:00:00, IPv6 2001:db8::1 > 2001:db8::2 hop limit 7, UDP 1000 > 2000, 62 bytes"},
		{"ARP", false, arp(t, layers.ARPRequest), "02:77:65:66:74:ff > 00:02:00:00:00:00, ARP who has 192.0.2.9? tell 192.0.2.1, 42 bytes"},
		{"noise", true, []byte{0x45, 0}, "2 bytes that cannot be read"},
		{"nothing", true, nil, "0 bytes that cannot be read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := describe(c.raw, c.packet, subscribers{}); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

type page struct{ bytes.Buffer }

func (*page) Flush() error { return nil }

func TestTheExplanationReadsAsAPage(t *testing.T) {
	packet := udp4(t, "192.0.2.1", "192.0.2.2", 9, "hello")
	list := tally{programs: counts("ingress_tc", outcome("pass-not-translated"), 1, "translator_egress", outcome("forward-4to6"), 2)}.since(tally{})
	verdict, decided := judge(list)
	var out page
	err := explain(&out, true, Packet{Number: 3, Bytes: packet}, Result{
		Packet: 3, In: "wan", Verdict: verdict, Reason: decided.String(), words: decided.Words(), Decisions: list,
		Outputs: []Sent{{Interface: "lan", bytes: udp6(t, "2001:db8::1", "2001:db8::2", 7, "")}},
	}, subscribers{})
	want := `packet 3  in by wan: IPv4 192.0.2.1 > 192.0.2.2 ttl 9 DF, UDP 1000 > 2000, 33 bytes
  ingress_tc          pass-not-translated: no translator serves the destination
  translator_egress   forward-4to6: the stack routed the packet, then weft translated it to IPv6 (2 times)
  => forward, forward-4to6: the stack routed the packet, then weft translated it to IPv6
  out by lan: IPv6 2001:db8::1 > 2001:db8::2 hop limit 7, UDP 1000 > 2000, 48 bytes

`
	if err != nil || out.String() != want {
		t.Errorf("%v\n%s", err, out.String())
	}
	out.Reset()
	err = writeJSON(&out, Result{Packet: 1, In: "wan", Verdict: "pass", Reason: "outcome-none", Outputs: []Sent{}, Decisions: []Decision{}, words: "x"})
	if want := `{"packet":1,"verdict":"pass","reason":"outcome-none","in":"wan","outputs":[],"decisions":[]}` + "\n"; err != nil || out.String() != want {
		t.Errorf("%v\n%s", err, out.String())
	}
}
