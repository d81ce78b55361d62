package fibtable_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/cilium/ebpf"

	"weft/internal/datapath/datapathtest"
	"weft/internal/state"
)

// Routing by weft's own tables: every vector through the XDP and the TC build.
// Frames come in by lan and leave by wan:
//
//	next hop 1  neighbour 1 behind wan, MTU 1500     198.51.100.0/24  2001:db8:1::/48
//	         2  neighbour 2 behind wan, MTU 1280     198.51.101.0/24  2001:db8:2::/48
//	         3  blackhole                            198.51.102.0/24  2001:db8:3::/48
//	         4  unreachable                          198.51.103.0/24  2001:db8:4::/48
//	         5  the router itself                    198.51.104.0/24  2001:db8:5::/48
//	         6  the stack                            198.51.105.0/24  2001:db8:6::/48
//	         7  a device that takes no XDP frames    198.51.106.0/24  2001:db8:7::/48
//	         8  a group: next hops 1, 2, 2 and 2     198.51.107.0/24  2001:db8:8::/48

func TestRouteDecides(t *testing.T) {
	r := newRouter(t, parts()...)
	v4 := func(to string, n int) datapathtest.Packet { return datapathtest.Udp(datapathtest.Router4, to, n) }
	v6 := func(to string, n int) datapathtest.Packet { return datapathtest.Udp(datapathtest.Router6, to, n) }
	ttl := func(p datapathtest.Packet, ttl byte) []byte { p.Ttl = ttl; return p.Bytes() }
	options, hopByHop, padded := v4("198.51.100.7", 20), v6("2001:db8:1::7", 20), v4("198.51.100.7", 4)
	options.Options = []byte{1, 1, 1, 1}
	hopByHop.Protocol, hopByHop.Options = 0, datapathtest.Bin("1100010400000000")
	padded.Padding = 14
	good4, good6 := v4("198.51.100.7", 20).Bytes(), v6("2001:db8:1::7", 20).Bytes()
	tests := []struct {
		name    string
		packet  []byte
		to      byte // neighbour, if it goes out
		outcome state.Outcome
	}{
		{"an IPv4 packet with a route and a neighbour goes out", good4, 1, state.ForwardRouted},
		{"an IPv6 packet with a route and a neighbour goes out", good6, 1, state.ForwardRouted},
		{"padding of the link goes with it", padded.Bytes(), 1, state.ForwardRouted},
		{"TTL 2 is the least that goes on", ttl(v4("198.51.100.7", 20), 2), 1, state.ForwardRouted},
		{"TTL 255 goes on", ttl(v4("198.51.100.7", 20), 255), 1, state.ForwardRouted},
		{"hop limit 2 is the least that goes on", ttl(v6("2001:db8:1::7", 20), 2), 1, state.ForwardRouted},
		{"TTL 1 is for the stack to answer", ttl(v4("198.51.100.7", 20), 1), 0, state.PassTtl},
		{"hop limit 1 is for the stack to answer", ttl(v6("2001:db8:1::7", 20), 1), 0, state.PassTtl},
		{"no route is for the stack to answer", v4("203.0.113.1", 20).Bytes(), 0, state.PassNoRoute},
		{"no IPv6 route is for the stack to answer", v6("2001:db8:99::1", 20).Bytes(), 0, state.PassNoRoute},
		{"an IPv4 packet as large as the link goes out", v4("198.51.101.7", 1280-28).Bytes(), 2, state.ForwardRouted},
		{"one byte more is for the stack to answer", v4("198.51.101.7", 1281-28).Bytes(), 0, state.PassTooBig},
		{"an IPv6 packet as large as the link goes out", v6("2001:db8:2::7", 1280-48).Bytes(), 2, state.ForwardRouted},
		{"one byte more of IPv6 is for the stack to answer", v6("2001:db8:2::7", 1281-48).Bytes(), 0, state.PassTooBig},
		{"a blackhole drops", v4("198.51.102.7", 20).Bytes(), 0, state.DropBlackhole},
		{"a blackhole drops IPv6", v6("2001:db8:3::7", 20).Bytes(), 0, state.DropBlackhole},
		{"an unreachable route is for the stack to answer", v4("198.51.103.7", 20).Bytes(), 0, state.PassUnreachable},
		{"a route to the router itself is for the stack", v6("2001:db8:5::7", 20).Bytes(), 0, state.PassLocal},
		{"a neighbour not resolved is for the stack", v4("198.51.105.7", 20).Bytes(), 0, state.PassNoNeighbour},
		{"multicast is for the stack", v4("239.1.1.1", 20).Bytes(), 0, state.PassLinkScope},
		{"IPv6 multicast is for the stack", v6("ff05::2", 20).Bytes(), 0, state.PassLinkScope},
		{"a link-local destination is for the stack", v6("fe80::1", 20).Bytes(), 0, state.PassLinkScope},
		{"a link-local source is for the stack", datapathtest.Udp("fe80::1", "2001:db8:1::7", 20).Bytes(), 0, state.PassLinkScope},
		{"a loopback source is for the stack", datapathtest.Udp("127.0.0.1", "198.51.100.7", 20).Bytes(), 0, state.PassLinkScope},
		{"an unspecified source is for the stack", datapathtest.Udp("::", "2001:db8:1::7", 20).Bytes(), 0, state.PassLinkScope},
		{"IPv4 options are for the stack", options.Bytes(), 0, state.PassOptions},
		{"hop-by-hop options are for the stack", hopByHop.Bytes(), 0, state.PassOptions},
		{"a wrong header checksum is for the stack", datapathtest.With(good4, 10, good4[10]^1), 0, state.PassOptions},
		{"a length that lies is for the stack", datapathtest.Healed(datapathtest.With(good4, 2, 9)), 0, state.PassOptions},
		{"an IPv6 length that lies is for the stack", datapathtest.With(good6, 4, 9), 0, state.PassOptions},
		{"another version than the frame says is for the stack", datapathtest.With(good6, 0, 0x45), 0, state.PassOptions},
		{"SCTP goes out like any other", datapathtest.Packet{From: datapathtest.Router4, To: "198.51.100.7", Protocol: 132, Payload: datapathtest.Counting(30)}.Bytes(), 1, state.ForwardRouted},
		{"a fragment goes out like any other", datapathtest.Packet{From: datapathtest.Router4, To: "198.51.100.7", Protocol: 17, Flags: 0x2003, Payload: datapathtest.Counting(32)}.Bytes(), 1, state.ForwardRouted},
		{"a protocol without ports goes out like any other", datapathtest.Packet{From: datapathtest.Router6, To: "2001:db8:1::7", Protocol: 59}.Bytes(), 1, state.ForwardRouted},
	}
	for _, build := range datapathtest.Builds {
		for _, tt := range tests {
			frame := r.Frame("lan", tt.packet)
			want := frame
			if tt.outcome == state.ForwardRouted {
				want = datapathtest.Hopped(frame, r.Neighbour(tt.to, 0, true))
			}
			res, got := r.One(build, frame)
			if err := datapathtest.Differs(res, got, tt.outcome, datapathtest.VerdictOf(build, got), want); err != nil {
				t.Errorf("%s: %s: %v", build, tt.name, err)
			}
		}
	}
}

func TestAWayOutThatTakesNoXDPFramesIsLeftToTC(t *testing.T) {
	r := newRouter(t, parts()...)
	for _, p := range []datapathtest.Packet{datapathtest.Udp(datapathtest.Router4, "198.51.106.7", 9), datapathtest.Udp(datapathtest.Router6, "2001:db8:7::7", 9)} {
		frame := r.Frame("lan", p.Bytes())
		res, got := r.One("ingress_xdp", frame)
		if err := datapathtest.Differs(res, got, state.PassToTc, 2, frame); err != nil {
			t.Error(err)
		}
		res, got = r.One("ingress_tc", frame)
		if err := datapathtest.Differs(res, got, state.ForwardRouted, 7, datapathtest.Hopped(frame, r.Neighbour(7, 0, false))); err != nil {
			t.Error(err)
		}
	}
}

func TestRouteRightsEveryChecksum(t *testing.T) {
	r := newRouter(t, parts()...)
	for _, build := range datapathtest.Builds {
		var frames [][]byte
		for i := range 512 {
			p := datapathtest.Udp(fmt.Sprintf("192.0.%d.%d", i&255, i*7&255|1), "198.51.100.7", 4)
			p.Ttl, p.Id = byte(2+i%254), i*131
			frames = append(frames, r.Frame("lan", p.Bytes()))
		}
		for i, res := range r.Run(build, "lan", frames...) {
			if !bytes.Equal(res.Frame, datapathtest.Hopped(frames[i], r.Neighbour(1, 0, true))) {
				t.Fatalf("%s: %x became %x", build, frames[i], res.Frame)
			}
		}
	}
}

func TestRouteNeverReadsBeyondAFrame(t *testing.T) {
	r := newRouter(t, parts()...)
	for _, build := range datapathtest.Builds {
		for _, p := range []datapathtest.Packet{datapathtest.Udp(datapathtest.Router4, "198.51.107.7", 20), datapathtest.Udp(datapathtest.Router6, "2001:db8:8::7", 20)} {
			whole := r.Frame("lan", p.Bytes())
			for n := 14; n < len(whole); n++ {
				res := r.Run(build, "lan", bytes.Clone(whole[:n]))[0]
				if datapathtest.Refused(res, whole[:n]) {
					continue
				}
				o, err := datapathtest.Variant{Program: build}.Outcome(res)
				if err != nil || o != state.PassOptions || !bytes.Equal(res.Frame, whole[:n]) {
					t.Errorf("%s: cut at %d: %s, %v", build, n, o, err)
				}
			}
		}
	}
}

func TestAFrameForAnotherStationIsNotRouted(t *testing.T) {
	r := newRouter(t, parts()...)
	for _, build := range datapathtest.Builds {
		for _, p := range []datapathtest.Packet{datapathtest.Udp(datapathtest.Router4, "198.51.100.7", 20), datapathtest.Udp(datapathtest.Router6, "2001:db8:1::7", 20)} {
			for at := range 6 {
				frame := r.Frame("lan", p.Bytes())
				frame[at] ^= 4
				res, got := r.One(build, frame)
				if err := datapathtest.Differs(res, got, state.PassNotForUs, datapathtest.VerdictOf(build, got), frame); err != nil {
					t.Errorf("%s: byte %d: %v", build, at, err)
				}
			}
		}
	}
}

func TestAnInterfaceWithoutRoutingRoutesNothing(t *testing.T) {
	r := newRouter(t, parts()...)
	frame := r.Frame("wan", datapathtest.Udp(datapathtest.Router4, "198.51.100.7", 20).Bytes())
	if res := r.Run("ingress_xdp", "wan", frame)[0]; res.Err != nil || res.Verdict != 2 || len(res.Counted) != 0 || !bytes.Equal(res.Frame, frame) {
		t.Errorf("xdp: %+v", res)
	}
	res := r.Run("ingress_tc", "wan", frame)[0]
	if res.Err != nil || int32(res.Verdict) != -1 || res.Counted["ingress_tc pass-not-translated"] != 1 || !bytes.Equal(res.Frame, frame) {
		t.Errorf("tc: %+v", res)
	}
}

func TestAGroupSpreadsFlowsByWeightAndKeepsEachOnOneWay(t *testing.T) {
	r := newRouter(t, parts()...)
	for _, build := range datapathtest.Builds {
		for _, pair := range [][2]string{{datapathtest.Router4, "198.51.107.1"}, {datapathtest.Router6, "2001:db8:8::1"}} {
			const flows = 1000
			var frames [][]byte
			for port := range uint16(flows) {
				frame := r.Frame("lan", datapathtest.Udp(pair[0], pair[1], 8).Bytes())
				l4 := len(frame) - 16
				binary.BigEndian.PutUint16(frame[l4:], port)
				frames = append(frames, frame, frame)
			}
			seen := map[byte]int{}
			results := r.Run(build, "lan", frames...)
			for i := 0; i < len(results); i += 2 {
				if results[i].Frame[5] != results[i+1].Frame[5] {
					t.Fatalf("%s: a flow went by %d and by %d", build, results[i].Frame[5], results[i+1].Frame[5])
				}
				seen[results[i].Frame[5]]++
			}
			if seen[1]+seen[2] != flows || seen[1] < flows/4-flows/16 || seen[1] > flows/4+flows/16 {
				t.Errorf("%s: flows went %v, want a quarter by 1 and the others by 2", build, seen)
			}
		}
	}
}

func TestAllPartsOfADatagramGoOneWay(t *testing.T) {
	r := newRouter(t, parts()...)
	for _, build := range datapathtest.Builds {
		for from := range 20 {
			var frames [][]byte
			for part := range 4 {
				p := datapathtest.Packet{From: fmt.Sprintf("192.0.2.%d", from), To: "198.51.107.1", Protocol: 17, Id: 7, Payload: datapathtest.Counting(64)[part*8:]}
				p.Flags = part
				if part < 3 {
					p.Flags |= 0x2000
				}
				frames = append(frames, r.Frame("lan", p.Bytes()))
			}
			results := r.Run(build, "lan", frames...)
			for _, res := range results {
				if res.Frame[5] != results[0].Frame[5] {
					t.Fatalf("%s: parts went by %d and by %d", build, results[0].Frame[5], res.Frame[5])
				}
			}
		}
	}
}

func TestOneWriteMovesAllRoutesOfAGateway(t *testing.T) {
	r := newRouter(t, parts()...)
	r.Set(1, state.Nexthop{Kind: state.NexthopNeighbour, Index: r.First + 2})
	for _, build := range datapathtest.Builds {
		for _, p := range []datapathtest.Packet{datapathtest.Udp(datapathtest.Router4, "198.51.100.7", 20), datapathtest.Udp(datapathtest.Router6, "2001:db8:1::7", 20)} {
			if res, o := r.One(build, r.Frame("lan", p.Bytes())); o != state.ForwardRouted || res.Frame[5] != 2 {
				t.Errorf("%s: %s, to neighbour %d", build, o, res.Frame[5])
			}
		}
	}
}

func TestEachInterfaceIsRoutedByItsOwnTable(t *testing.T) {
	r := newRouter(t, parts()...)
	r.Route(3, "198.51.100.0/24", 2)
	r.Route(3, "2001:db8:1::/48", 2)
	r.Publish()
	for table, want := range map[int]state.Outcome{0: state.ForwardRouted, 3: state.ForwardRouted, 4: state.PassNoRoute} {
		r.SetPorts(func(p *state.IngressEntry) {
			p.Translators, p.Table, p.Roles = 0, table, p.Roles.With(state.RoleBypass, false).With(state.RoleRouted, true)
		})
		for _, build := range datapathtest.Builds {
			for _, p := range []datapathtest.Packet{datapathtest.Udp(datapathtest.Router4, "198.51.100.7", 20), datapathtest.Udp(datapathtest.Router6, "2001:db8:1::7", 20)} {
				res, o := r.One(build, r.Frame("lan", p.Bytes()))
				if by := map[int]byte{0: 1, 3: 2}[table]; o != want || by != 0 && res.Frame[5] != by {
					t.Errorf("%s: table %d: %s, by %d", build, table, o, res.Frame[5])
				}
			}
		}
	}
}

func TestWhatATranslatorWantsComesFirst(t *testing.T) {
	r := newRouter(t, parts()...)
	r.Route(0, "64:ff9b:1::/96", 1)
	r.SetPorts(func(p *state.IngressEntry) { p.Roles |= state.RoleBypass | state.RoleRouted })
	for _, build := range datapathtest.Builds {
		_, o := r.One(build, r.Frame("lan", datapathtest.Udp(datapathtest.Node6, datapathtest.Far6, 9).Bytes()))
		if o != state.Forward6to4Bypass {
			t.Errorf("%s: what a translator wants met %s", build, o)
		}
		frame := r.Frame("lan", datapathtest.Udp(datapathtest.Node6, "2001:db8:1::7", 9).Bytes())
		res, o := r.One(build, frame)
		if err := datapathtest.Differs(res, o, state.ForwardRouted, datapathtest.VerdictOf(build, o), datapathtest.Hopped(frame, r.Neighbour(1, 0, true))); err != nil {
			t.Errorf("%s: what no translator wants: %v", build, err)
		}
	}
}

// A GSO packet is measured by what its segments are on the wire, and goes
// out whole: gso_size, the TCP header with its options, the IP header.
func TestASuperPacketIsMeasuredByItsSegments(t *testing.T) {
	r := newRouter(t, parts()...)
	timestamps := datapathtest.Bin("0101080a 00000001 00000002")
	for _, tt := range []struct {
		name    string
		packet  datapathtest.Packet
		segment uint32
		want    state.Outcome
	}{
		{"segments of 1500 bytes", datapathtest.Tcp(datapathtest.Router4, "198.51.100.7", 0x10, nil, 2900), 1460, state.ForwardRouted},
		{"segments of 1501 bytes", datapathtest.Tcp(datapathtest.Router4, "198.51.100.7", 0x10, nil, 2900), 1461, state.PassTooBig},
		{"segments of 1500 bytes with TCP options", datapathtest.Tcp(datapathtest.Router4, "198.51.100.7", 0x10, timestamps, 2900), 1448, state.ForwardRouted},
		{"segments of 1501 bytes with TCP options", datapathtest.Tcp(datapathtest.Router4, "198.51.100.7", 0x10, timestamps, 2900), 1449, state.PassTooBig},
		{"IPv6 segments of 1500 bytes", datapathtest.Tcp(datapathtest.Router6, "2001:db8:1::7", 0x10, timestamps, 2900), 1428, state.ForwardRouted},
		{"IPv6 segments of 1501 bytes", datapathtest.Tcp(datapathtest.Router6, "2001:db8:1::7", 0x10, timestamps, 2900), 1429, state.PassTooBig},
		{"segments of a protocol with unknown headers", datapathtest.Packet{From: datapathtest.Router4, To: "198.51.100.7", Protocol: 47, Payload: datapathtest.Counting(2900)}, 500, state.PassTooBig},
	} {
		frame := r.Frame("lan", tt.packet.Bytes())
		var res datapathtest.Result
		r.In(func() error {
			before, err := r.Counters()
			if err != nil {
				return err
			}
			context := r.SkbContext("ingress_tc", "lan")
			context.GSOSize = tt.segment
			options := ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+64), Context: context}
			res.Verdict, res.Err = r.Program("ingress_tc").Run(&options)
			res.Frame = options.DataOut
			after, err := r.Counters()
			res.Counted = datapathtest.Difference(before, after)
			return err
		})
		o, err := datapathtest.Variant{Program: "ingress_tc"}.Outcome(res)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		want := frame
		if tt.want == state.ForwardRouted {
			want = datapathtest.Hopped(frame, r.Neighbour(1, 0, true))
		}
		if err := datapathtest.Differs(res, o, tt.want, datapathtest.VerdictOf("ingress_tc", o), want); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
