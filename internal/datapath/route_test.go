package datapath

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

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"

	"weft/fib"
	"weft/internal/state"
)

// router is a bench whose lan is routed.
type router struct {
	*bench
	routes *Routes
	first  uint32 // number of next hop 0
	tables map[int]map[family]*fib.Table
}

const router4, router6 = "192.0.2.1", "2001:db8:ffff::1"

var builds = []string{"ingress_xdp", "ingress_tc"}

func newRouter(t *testing.T) *router {
	t.Helper()
	b := newBench(t, usual)
	b.setPorts(func(p *state.Port) {
		p.Translators, p.Roles = 0, p.Roles.With(state.RoleShortcut, false).With(state.RoleRouted, p.Device == "lan")
	})
	routes, err := b.datapath.Routes()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { routes.Close() })
	r := &router{bench: b, routes: routes, tables: map[int]map[family]*fib.Table{}}
	r.first, _ = routes.Range()
	r.first--
	for hop, n := range map[uint32]state.NeighbourEntry{
		1: r.neighbour(1, 1500, true), 2: r.neighbour(2, 1280, true), 7: r.neighbour(7, 1500, false),
	} {
		r.reach(hop, n)
	}
	for hop, kind := range map[uint32]state.NexthopKind{
		3: state.NexthopBlackhole, 4: state.NexthopUnreachable, 5: state.NexthopLocal, 6: state.NexthopStack,
	} {
		r.set(hop, state.Nexthop{Kind: kind})
	}
	members := []uint32{r.first + 1, r.first + 2, r.first + 2, r.first + 2}
	if err := routes.SetGroup(r.first+100, members); err != nil {
		t.Fatal(err)
	}
	r.set(8, state.Nexthop{Kind: state.NexthopGroup, Index: r.first + 100})
	for hop := range uint32(8) {
		r.route(0, fmt.Sprintf("198.51.%d.0/24", 100+hop), hop+1)
		r.route(0, fmt.Sprintf("2001:db8:%x::/48", 1+hop), hop+1)
	}
	r.publish()
	return r
}

// neighbour is one behind wan, whose link address ends in its number.
func (r *router) neighbour(number byte, mtu uint32, xdp bool) state.NeighbourEntry {
	return state.NeighbourEntry{
		IfIndex: uint32(r.links["wan"].Index), MTU: mtu, XDP: xdp,
		Dst: [6]byte{2, 0, 0, 0, 1, number}, Src: r.links["wan"].MAC,
	}
}

func (r *router) set(hop uint32, to state.Nexthop) {
	r.t.Helper()
	if err := r.routes.SetNexthop(r.first+hop, to); err != nil {
		r.t.Fatal(err)
	}
}

// reach makes a next hop lead to a neighbour of the same number.
func (r *router) reach(hop uint32, n state.NeighbourEntry) {
	r.t.Helper()
	if err := r.routes.SetNeighbour(r.first+hop, n); err != nil {
		r.t.Fatal(err)
	}
	r.set(hop, state.Nexthop{Kind: state.NexthopNeighbour, Index: r.first + hop})
}

func (r *router) route(table int, prefix string, hop uint32) {
	r.t.Helper()
	p := netip.MustParsePrefix(prefix)
	if r.tables[table] == nil {
		r.makeTables(table)
	}
	f := fib4
	if p.Addr().Is6() {
		f = fib6
	}
	if err := r.tables[table][f].Insert(p, r.first+hop); err != nil {
		r.t.Fatal(err)
	}
}

func (r *router) makeTables(table int) {
	r.t.Helper()
	words4, err4 := r.routes.Words4(table)
	words6, err6 := r.routes.Words6(table)
	table4, err44 := fib.New4(words4)
	table6, err66 := fib.New6(words6)
	if err := errors.Join(err4, err6, err44, err66); err != nil {
		r.t.Fatal(err)
	}
	r.tables[table] = map[family]*fib.Table{fib4: table4, fib6: table6}
}

func (r *router) publish() {
	r.t.Helper()
	if err := r.routes.Publish(); err != nil {
		r.t.Fatal(err)
	}
}

// one runs a frame through a build and gives what it met.
func (r *router) one(build string, frame []byte) (result, state.Outcome) {
	r.t.Helper()
	res := r.run(build, "lan", frame)[0]
	o, err := road{program: build}.outcome(res)
	if err != nil {
		r.t.Fatalf("%s: %v", build, err)
	}
	return res, o
}

// verdictOf is what a build must return for an outcome.
func verdictOf(build string, o state.Outcome) uint32 {
	name := "tc"
	if build == "ingress_xdp" {
		name = "xdp"
	}
	return road{name: name, program: build}.verdict(o)
}

// hopped is a frame of lan as it leaves towards a neighbour: what routing may
// change is the link header and the TTL, with the IPv4 header checksum.
func hopped(frame []byte, to state.NeighbourEntry) []byte {
	ip := fewerHops(bytes.Clone(frame[14:]))
	if isIPv4(ip) {
		healed(ip)
	}
	out := append(append([]byte{}, to.Dst[:]...), to.Src[:]...)
	return append(append(out, frame[12:14]...), ip...)
}

func TestRouteDecides(t *testing.T) {
	r := newRouter(t)
	v4 := func(to string, n int) packet { return udp(router4, to, n) }
	v6 := func(to string, n int) packet { return udp(router6, to, n) }
	ttl := func(p packet, ttl byte) []byte { p.ttl = ttl; return p.bytes() }
	options, hopByHop, padded := v4("198.51.100.7", 20), v6("2001:db8:1::7", 20), v4("198.51.100.7", 4)
	options.options = []byte{1, 1, 1, 1}
	hopByHop.protocol, hopByHop.options = 0, bin("1100010400000000")
	padded.padding = 14
	good4, good6 := v4("198.51.100.7", 20).bytes(), v6("2001:db8:1::7", 20).bytes()
	tests := []struct {
		name    string
		packet  []byte
		to      byte // neighbour, if it goes out
		outcome state.Outcome
	}{
		{"an IPv4 packet with a route and a neighbour goes out", good4, 1, state.ForwardRouted},
		{"an IPv6 packet with a route and a neighbour goes out", good6, 1, state.ForwardRouted},
		{"padding of the link goes with it", padded.bytes(), 1, state.ForwardRouted},
		{"TTL 2 is the least that goes on", ttl(v4("198.51.100.7", 20), 2), 1, state.ForwardRouted},
		{"TTL 255 goes on", ttl(v4("198.51.100.7", 20), 255), 1, state.ForwardRouted},
		{"hop limit 2 is the least that goes on", ttl(v6("2001:db8:1::7", 20), 2), 1, state.ForwardRouted},
		{"TTL 1 is for the stack to answer", ttl(v4("198.51.100.7", 20), 1), 0, state.PassTtl},
		{"hop limit 1 is for the stack to answer", ttl(v6("2001:db8:1::7", 20), 1), 0, state.PassTtl},
		{"no route is for the stack to answer", v4("203.0.113.1", 20).bytes(), 0, state.PassNoRoute},
		{"no IPv6 route is for the stack to answer", v6("2001:db8:99::1", 20).bytes(), 0, state.PassNoRoute},
		{"an IPv4 packet as large as the link goes out", v4("198.51.101.7", 1280-28).bytes(), 2, state.ForwardRouted},
		{"one byte more is for the stack to answer", v4("198.51.101.7", 1281-28).bytes(), 0, state.PassTooBig},
		{"an IPv6 packet as large as the link goes out", v6("2001:db8:2::7", 1280-48).bytes(), 2, state.ForwardRouted},
		{"one byte more of IPv6 is for the stack to answer", v6("2001:db8:2::7", 1281-48).bytes(), 0, state.PassTooBig},
		{"a blackhole drops", v4("198.51.102.7", 20).bytes(), 0, state.DropBlackhole},
		{"a blackhole drops IPv6", v6("2001:db8:3::7", 20).bytes(), 0, state.DropBlackhole},
		{"an unreachable route is for the stack to answer", v4("198.51.103.7", 20).bytes(), 0, state.PassUnreachable},
		{"a route to the router itself is for the stack", v6("2001:db8:5::7", 20).bytes(), 0, state.PassLocal},
		{"a neighbour not resolved is for the stack", v4("198.51.105.7", 20).bytes(), 0, state.PassNoNeighbour},
		{"multicast is for the stack", v4("239.1.1.1", 20).bytes(), 0, state.PassLinkScope},
		{"IPv6 multicast is for the stack", v6("ff05::2", 20).bytes(), 0, state.PassLinkScope},
		{"a link-local destination is for the stack", v6("fe80::1", 20).bytes(), 0, state.PassLinkScope},
		{"a link-local source is for the stack", udp("fe80::1", "2001:db8:1::7", 20).bytes(), 0, state.PassLinkScope},
		{"a loopback source is for the stack", udp("127.0.0.1", "198.51.100.7", 20).bytes(), 0, state.PassLinkScope},
		{"an unspecified source is for the stack", udp("::", "2001:db8:1::7", 20).bytes(), 0, state.PassLinkScope},
		{"IPv4 options are for the stack", options.bytes(), 0, state.PassOptions},
		{"hop-by-hop options are for the stack", hopByHop.bytes(), 0, state.PassOptions},
		{"a wrong header checksum is for the stack", with(good4, 10, good4[10]^1), 0, state.PassOptions},
		{"a length that lies is for the stack", healed(with(good4, 2, 9)), 0, state.PassOptions},
		{"an IPv6 length that lies is for the stack", with(good6, 4, 9), 0, state.PassOptions},
		{"another version than the frame says is for the stack", with(good6, 0, 0x45), 0, state.PassOptions},
		{"SCTP goes out like any other", packet{from: router4, to: "198.51.100.7", protocol: 132, payload: counting(30)}.bytes(), 1, state.ForwardRouted},
		{"a fragment goes out like any other", packet{from: router4, to: "198.51.100.7", protocol: 17, flags: 0x2003, payload: counting(32)}.bytes(), 1, state.ForwardRouted},
		{"a protocol without ports goes out like any other", packet{from: router6, to: "2001:db8:1::7", protocol: 59}.bytes(), 1, state.ForwardRouted},
	}
	for _, build := range builds {
		for _, tt := range tests {
			frame := r.frame("lan", tt.packet)
			want := frame
			if tt.outcome == state.ForwardRouted {
				want = hopped(frame, r.neighbour(tt.to, 0, true))
			}
			res, got := r.one(build, frame)
			if err := differs(res, got, tt.outcome, verdictOf(build, got), want); err != nil {
				t.Errorf("%s: %s: %v", build, tt.name, err)
			}
		}
	}
}

func TestAWayOutThatTakesNoXDPFramesIsLeftToTC(t *testing.T) {
	r := newRouter(t)
	for _, p := range []packet{udp(router4, "198.51.106.7", 9), udp(router6, "2001:db8:7::7", 9)} {
		frame := r.frame("lan", p.bytes())
		res, got := r.one("ingress_xdp", frame)
		if err := differs(res, got, state.PassToTc, 2, frame); err != nil {
			t.Error(err)
		}
		res, got = r.one("ingress_tc", frame)
		if err := differs(res, got, state.ForwardRouted, 7, hopped(frame, r.neighbour(7, 0, false))); err != nil {
			t.Error(err)
		}
	}
}

func TestRouteRightsEveryChecksum(t *testing.T) {
	r := newRouter(t)
	for _, build := range builds {
		var frames [][]byte
		for i := range 512 {
			p := udp(fmt.Sprintf("192.0.%d.%d", i&255, i*7&255|1), "198.51.100.7", 4)
			p.ttl, p.id = byte(2+i%254), i*131
			frames = append(frames, r.frame("lan", p.bytes()))
		}
		for i, res := range r.run(build, "lan", frames...) {
			if !bytes.Equal(res.frame, hopped(frames[i], r.neighbour(1, 0, true))) {
				t.Fatalf("%s: %x became %x", build, frames[i], res.frame)
			}
		}
	}
}

func TestRouteNeverReadsBeyondAFrame(t *testing.T) {
	r := newRouter(t)
	for _, build := range builds {
		for _, p := range []packet{udp(router4, "198.51.107.7", 20), udp(router6, "2001:db8:8::7", 20)} {
			whole := r.frame("lan", p.bytes())
			for n := 14; n < len(whole); n++ {
				res := r.run(build, "lan", bytes.Clone(whole[:n]))[0]
				if refused(res, whole[:n]) {
					continue
				}
				o, err := road{program: build}.outcome(res)
				if err != nil || o != state.PassOptions || !bytes.Equal(res.frame, whole[:n]) {
					t.Errorf("%s: cut at %d: %s, %v", build, n, o, err)
				}
			}
		}
	}
}

func TestAFrameForAnotherStationIsNotRouted(t *testing.T) {
	r := newRouter(t)
	for _, build := range builds {
		for _, p := range []packet{udp(router4, "198.51.100.7", 20), udp(router6, "2001:db8:1::7", 20)} {
			for at := range 6 {
				frame := r.frame("lan", p.bytes())
				frame[at] ^= 4
				res, got := r.one(build, frame)
				if err := differs(res, got, state.PassNotForUs, verdictOf(build, got), frame); err != nil {
					t.Errorf("%s: byte %d: %v", build, at, err)
				}
			}
		}
	}
}

func TestAnInterfaceWithoutRoutingRoutesNothing(t *testing.T) {
	r := newRouter(t)
	frame := r.frame("wan", udp(router4, "198.51.100.7", 20).bytes())
	if res := r.run("ingress_xdp", "wan", frame)[0]; res.err != nil || res.verdict != 2 || len(res.counted) != 0 || !bytes.Equal(res.frame, frame) {
		t.Errorf("xdp: %+v", res)
	}
	res := r.run("ingress_tc", "wan", frame)[0]
	if res.err != nil || int32(res.verdict) != -1 || res.counted["ingress_tc pass-not-translated"] != 1 || !bytes.Equal(res.frame, frame) {
		t.Errorf("tc: %+v", res)
	}
}

func TestAGroupSpreadsFlowsByWeightAndKeepsEachOnOneWay(t *testing.T) {
	r := newRouter(t)
	for _, build := range builds {
		for _, pair := range [][2]string{{router4, "198.51.107.1"}, {router6, "2001:db8:8::1"}} {
			const flows = 1000
			var frames [][]byte
			for port := range uint16(flows) {
				frame := r.frame("lan", udp(pair[0], pair[1], 8).bytes())
				l4 := len(frame) - 16
				binary.BigEndian.PutUint16(frame[l4:], port)
				frames = append(frames, frame, frame)
			}
			seen := map[byte]int{}
			results := r.run(build, "lan", frames...)
			for i := 0; i < len(results); i += 2 {
				if results[i].frame[5] != results[i+1].frame[5] {
					t.Fatalf("%s: a flow went by %d and by %d", build, results[i].frame[5], results[i+1].frame[5])
				}
				seen[results[i].frame[5]]++
			}
			if seen[1]+seen[2] != flows || seen[1] < flows/4-flows/16 || seen[1] > flows/4+flows/16 {
				t.Errorf("%s: flows went %v, want a quarter by 1 and the others by 2", build, seen)
			}
		}
	}
}

func TestAllPartsOfADatagramGoOneWay(t *testing.T) {
	r := newRouter(t)
	for _, build := range builds {
		for from := range 20 {
			var frames [][]byte
			for part := range 4 {
				p := packet{from: fmt.Sprintf("192.0.2.%d", from), to: "198.51.107.1", protocol: 17, id: 7, payload: counting(64)[part*8:]}
				p.flags = part
				if part < 3 {
					p.flags |= 0x2000
				}
				frames = append(frames, r.frame("lan", p.bytes()))
			}
			results := r.run(build, "lan", frames...)
			for _, res := range results {
				if res.frame[5] != results[0].frame[5] {
					t.Fatalf("%s: parts went by %d and by %d", build, results[0].frame[5], res.frame[5])
				}
			}
		}
	}
}

func TestOneWriteMovesAllRoutesOfAGateway(t *testing.T) {
	r := newRouter(t)
	r.set(1, state.Nexthop{Kind: state.NexthopNeighbour, Index: r.first + 2})
	for _, build := range builds {
		for _, p := range []packet{udp(router4, "198.51.100.7", 20), udp(router6, "2001:db8:1::7", 20)} {
			if res, o := r.one(build, r.frame("lan", p.bytes())); o != state.ForwardRouted || res.frame[5] != 2 {
				t.Errorf("%s: %s, to neighbour %d", build, o, res.frame[5])
			}
		}
	}
}

func TestEachInterfaceIsRoutedByItsOwnTable(t *testing.T) {
	r := newRouter(t)
	r.route(3, "198.51.100.0/24", 2)
	r.route(3, "2001:db8:1::/48", 2)
	r.publish()
	for table, want := range map[int]state.Outcome{0: state.ForwardRouted, 3: state.ForwardRouted, 4: state.PassNoRoute} {
		r.setPorts(func(p *state.Port) {
			p.Translators, p.Table, p.Roles = 0, table, p.Roles.With(state.RoleShortcut, false).With(state.RoleRouted, true)
		})
		for _, build := range builds {
			for _, p := range []packet{udp(router4, "198.51.100.7", 20), udp(router6, "2001:db8:1::7", 20)} {
				res, o := r.one(build, r.frame("lan", p.bytes()))
				if by := map[int]byte{0: 1, 3: 2}[table]; o != want || by != 0 && res.frame[5] != by {
					t.Errorf("%s: table %d: %s, by %d", build, table, o, res.frame[5])
				}
			}
		}
	}
}

func TestWhatATranslatorWantsComesFirst(t *testing.T) {
	r := newRouter(t)
	r.route(0, "64:ff9b:1::/96", 1)
	r.setPorts(func(p *state.Port) { p.Roles |= state.RoleShortcut | state.RoleRouted })
	for _, build := range builds {
		_, o := r.one(build, r.frame("lan", udp(node6, far6, 9).bytes()))
		if o != state.Forward6to4Shortcut {
			t.Errorf("%s: what a translator wants met %s", build, o)
		}
		frame := r.frame("lan", udp(node6, "2001:db8:1::7", 9).bytes())
		res, o := r.one(build, frame)
		if err := differs(res, o, state.ForwardRouted, verdictOf(build, o), hopped(frame, r.neighbour(1, 0, true))); err != nil {
			t.Errorf("%s: what no translator wants: %v", build, err)
		}
	}
}

// A super-packet is measured by what its segments are on the wire, and goes
// out whole: gso_size, the TCP header with its options, the IP header.
func TestASuperPacketIsMeasuredByItsSegments(t *testing.T) {
	r := newRouter(t)
	timestamps := bin("0101080a 00000001 00000002")
	for _, tt := range []struct {
		name    string
		packet  packet
		segment uint32
		want    state.Outcome
	}{
		{"segments of 1500 bytes", tcp(router4, "198.51.100.7", 0x10, nil, 2900), 1460, state.ForwardRouted},
		{"segments of 1501 bytes", tcp(router4, "198.51.100.7", 0x10, nil, 2900), 1461, state.PassTooBig},
		{"segments of 1500 bytes with TCP options", tcp(router4, "198.51.100.7", 0x10, timestamps, 2900), 1448, state.ForwardRouted},
		{"segments of 1501 bytes with TCP options", tcp(router4, "198.51.100.7", 0x10, timestamps, 2900), 1449, state.PassTooBig},
		{"IPv6 segments of 1500 bytes", tcp(router6, "2001:db8:1::7", 0x10, timestamps, 2900), 1428, state.ForwardRouted},
		{"IPv6 segments of 1501 bytes", tcp(router6, "2001:db8:1::7", 0x10, timestamps, 2900), 1429, state.PassTooBig},
		{"segments of a protocol with headers that nobody knows", packet{from: router4, to: "198.51.100.7", protocol: 47, payload: counting(2900)}, 500, state.PassTooBig},
	} {
		frame := r.frame("lan", tt.packet.bytes())
		var res result
		r.in(func() error {
			before, err := r.counters()
			if err != nil {
				return err
			}
			context := r.skbContext("ingress_tc", "lan")
			context.GSOSize = tt.segment
			options := ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+64), Context: context}
			res.verdict, res.err = r.programs["ingress_tc"].Run(&options)
			res.frame = options.DataOut
			after, err := r.counters()
			res.counted = difference(before, after)
			return err
		})
		o, err := road{program: "ingress_tc"}.outcome(res)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		want := frame
		if tt.want == state.ForwardRouted {
			want = hopped(frame, r.neighbour(1, 0, true))
		}
		if err := differs(res, o, tt.want, verdictOf("ingress_tc", o), want); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
