package lookup

// The routing block, run by BPF_PROG_RUN over tables that nobody else has.

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"weft/fib"
	"weft/internal/datapath"
	"weft/internal/state"
)

const (
	xdpDrop     = 1
	xdpPass     = 2
	xdpRedirect = 4
)

// router is the routing program with tables of its own.
type router struct {
	objects xdpRouteObjects
	tables  map[int]*fib.Table
}

// newRouter loads it. Every device that a neighbour names must be there.
func newRouter(t *testing.T) *router {
	t.Helper()
	spec, err := loadXdpRoute()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range spec.Maps {
		m.Pinning = ebpf.PinNone
	}
	sizes := map[string]uint32{"fib4": fib.MinWords4 + 4096, "fib6": fib.MinWords6 + 4096}
	for name, words := range sizes {
		spec.Maps[name].ValueSize = 4 * words
		spec.Maps[name].Key, spec.Maps[name].Value = nil, nil
		if err := spec.Variables[name+"_last"].Set(words - fib.Slack); err != nil {
			t.Fatal(err)
		}
	}
	r := &router{tables: map[int]*fib.Table{}}
	if err := rlimit.RemoveMemlock(); err != nil {
		t.Fatal(err)
	}
	if err := spec.LoadAndAssign(&r.objects, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.objects.Close() })
	for f, m := range map[int]*ebpf.Map{4: r.objects.Fib4, 6: r.objects.Fib6} {
		words, err := datapath.MapWords(m)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { words.Close() })
		create := map[int]func([]uint32) (*fib.Table, error){4: fib.New4, 6: fib.New6}[f]
		if r.tables[f], err = create(words.Words); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func (r *router) route(t *testing.T, prefix string, hop uint32) {
	t.Helper()
	p := netip.MustParsePrefix(prefix)
	if err := r.tables[familyOf(p)].Insert(p, hop); err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, m *ebpf.Map, key uint32, value any) {
	t.Helper()
	if err := m.Put(key, value); err != nil {
		t.Fatal(err)
	}
}

// neighbour makes next hop number hop one, its address ending in the number.
func (r *router) neighbour(t *testing.T, hop uint32, mtu uint32) {
	t.Helper()
	n := xdpRouteNeighbour{Ifindex: 1, Mtu: mtu, Dst: [6]uint8{2, 0, 0, 0, 1, uint8(hop)}, Src: [6]uint8{2, 0, 0, 0, 0, 1}}
	put(t, r.objects.Neighbours, hop, n)
	put(t, r.objects.Nexthops, hop, xdpRouteNexthop{Index: hop, Kind: xdpRouteNexthopKindNEXTHOP_NEIGHBOUR})
}

// run gives the verdict, the frame afterwards, and the outcome counted.
func (r *router) run(t *testing.T, frame []byte) (verdict uint32, out []byte, outcome state.Outcome) {
	t.Helper()
	before := r.counts(t)
	verdict, out, err := r.objects.XdpRoute.Test(frame)
	if err != nil {
		t.Fatal(err)
	}
	for o, n := range r.counts(t) {
		if n != before[o] {
			return verdict, out, o
		}
	}
	t.Fatal("the packet was not counted")
	return 0, nil, 0
}

func (r *router) counts(t *testing.T) map[state.Outcome]uint64 {
	t.Helper()
	counts := map[state.Outcome]uint64{}
	for o := range state.OutcomeCount {
		var perCPU []uint64
		if err := r.objects.Counters.Lookup(uint32(o), &perCPU); err != nil {
			t.Fatal(err)
		}
		for _, n := range perCPU {
			counts[o] += n
		}
	}
	return counts
}

// datagram is a UDP packet; change has the last word on it.
func datagram(t *testing.T, from, to string, ttl uint8, port uint16, payload int) []byte {
	t.Helper()
	src, dst := netip.MustParseAddr(from), netip.MustParseAddr(to)
	eth := &layers.Ethernet{SrcMAC: []byte{2, 0, 0, 0, 9, 9}, DstMAC: []byte{2, 0, 0, 0, 0, 1}}
	udp := &layers.UDP{SrcPort: layers.UDPPort(port), DstPort: 53}
	var ip gopacket.SerializableLayer
	if src.Is4() {
		eth.EthernetType = layers.EthernetTypeIPv4
		v4 := &layers.IPv4{Version: 4, TTL: ttl, Protocol: layers.IPProtocolUDP, SrcIP: src.AsSlice(), DstIP: dst.AsSlice()}
		ip = v4
		if err := udp.SetNetworkLayerForChecksum(v4); err != nil {
			t.Fatal(err)
		}
	} else {
		eth.EthernetType = layers.EthernetTypeIPv6
		v6 := &layers.IPv6{Version: 6, HopLimit: ttl, NextHeader: layers.IPProtocolUDP, SrcIP: src.AsSlice(), DstIP: dst.AsSlice()}
		ip = v6
		if err := udp.SetNetworkLayerForChecksum(v6); err != nil {
			t.Fatal(err)
		}
	}
	buffer := gopacket.NewSerializeBuffer()
	options := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := gopacket.SerializeLayers(buffer, options, eth, ip, udp, gopacket.Payload(make([]byte, payload))); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

func testRouter(t *testing.T) *router {
	t.Helper()
	needRoot(t)
	r := newRouter(t)
	r.neighbour(t, 1, 1500)
	r.neighbour(t, 2, 1280)
	put(t, r.objects.Nexthops, 3, xdpRouteNexthop{Kind: xdpRouteNexthopKindNEXTHOP_BLACKHOLE})
	put(t, r.objects.Nexthops, 4, xdpRouteNexthop{Kind: xdpRouteNexthopKindNEXTHOP_UNREACHABLE})
	put(t, r.objects.Nexthops, 5, xdpRouteNexthop{Kind: xdpRouteNexthopKindNEXTHOP_LOCAL})
	put(t, r.objects.Nexthops, 6, xdpRouteNexthop{Kind: xdpRouteNexthopKindNEXTHOP_STACK})
	for i, parts := range [][2]string{
		{"198.51.100.0/24", "2001:db8:1::/48"},
		{"198.51.101.0/24", "2001:db8:2::/48"},
		{"198.51.102.0/24", "2001:db8:3::/48"},
		{"198.51.103.0/24", "2001:db8:4::/48"},
		{"198.51.104.0/24", "2001:db8:5::/48"},
		{"198.51.105.0/24", "2001:db8:6::/48"},
	} {
		r.route(t, parts[0], uint32(i+1))
		r.route(t, parts[1], uint32(i+1))
	}
	return r
}

func TestRouteDecides(t *testing.T) {
	r := testRouter(t)
	from4, from6 := "192.0.2.1", "2001:db8:ffff::1"
	change := func(frame []byte, at int, value byte) []byte {
		frame[at] = value
		return frame
	}
	tests := []struct {
		name    string
		frame   []byte
		verdict uint32
		outcome state.Outcome
	}{
		{"an IPv4 packet with a route and a neighbour goes out", datagram(t, from4, "198.51.100.7", 64, 1, 20), xdpRedirect, state.ForwardRouted},
		{"an IPv6 packet with a route and a neighbour goes out", datagram(t, from6, "2001:db8:1::7", 64, 1, 20), xdpRedirect, state.ForwardRouted},
		{"TTL 2 is the least that goes on", datagram(t, from4, "198.51.100.7", 2, 1, 20), xdpRedirect, state.ForwardRouted},
		{"TTL 1 is for the stack to answer", datagram(t, from4, "198.51.100.7", 1, 1, 20), xdpPass, state.PassTtl},
		{"hop limit 1 is for the stack to answer", datagram(t, from6, "2001:db8:1::7", 1, 1, 20), xdpPass, state.PassTtl},
		{"no route is for the stack to answer", datagram(t, from4, "203.0.113.1", 64, 1, 20), xdpPass, state.PassNoRoute},
		{"no IPv6 route is for the stack to answer", datagram(t, from6, "2001:db8:99::1", 64, 1, 20), xdpPass, state.PassNoRoute},
		{"a packet as large as the link goes out", datagram(t, from6, "2001:db8:2::7", 64, 1, 1280-48), xdpRedirect, state.ForwardRouted},
		{"one byte more is for the stack to answer", datagram(t, from6, "2001:db8:2::7", 64, 1, 1280-47), xdpPass, state.PassTooBig},
		{"the same in IPv4", datagram(t, from4, "198.51.101.7", 64, 1, 1280-27), xdpPass, state.PassTooBig},
		{"a blackhole drops", datagram(t, from4, "198.51.102.7", 64, 1, 20), xdpDrop, state.DropBlackhole},
		{"a blackhole drops IPv6", datagram(t, from6, "2001:db8:3::7", 64, 1, 20), xdpDrop, state.DropBlackhole},
		{"an unreachable route is for the stack to answer", datagram(t, from4, "198.51.103.7", 64, 1, 20), xdpPass, state.PassUnreachable},
		{"a route to the router itself is for the stack", datagram(t, from6, "2001:db8:5::7", 64, 1, 20), xdpPass, state.PassLocal},
		{"a neighbour not resolved is for the stack", datagram(t, from4, "198.51.105.7", 64, 1, 20), xdpPass, state.PassNoNeighbour},
		{"multicast is for the stack", datagram(t, from4, "239.1.1.1", 64, 1, 20), xdpPass, state.PassLinkScope},
		{"a link-local destination is for the stack", datagram(t, from6, "fe80::1", 64, 1, 20), xdpPass, state.PassLinkScope},
		{"a link-local source is for the stack", datagram(t, "fe80::1", "2001:db8:1::7", 64, 1, 20), xdpPass, state.PassLinkScope},
		{"a loopback source is for the stack", datagram(t, "127.0.0.1", "198.51.100.7", 64, 1, 20), xdpPass, state.PassLinkScope},
		{"IPv4 options are for the stack", change(datagram(t, from4, "198.51.100.7", 64, 1, 20), 14, 0x46), xdpPass, state.PassOptions},
		{"hop-by-hop options are for the stack", change(datagram(t, from6, "2001:db8:1::7", 64, 1, 20), 20, 0), xdpPass, state.PassOptions},
		{"a length that lies is for the stack", change(datagram(t, from4, "198.51.100.7", 64, 1, 20), 16, 9), xdpPass, state.PassOptions},
		{"an IPv6 length that lies is for the stack", change(datagram(t, from6, "2001:db8:1::7", 64, 1, 20), 18, 9), xdpPass, state.PassOptions},
		{"ARP is for the stack", change(datagram(t, from4, "198.51.100.7", 64, 1, 20), 13, 6), xdpPass, state.PassNotIp},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			verdict, out, outcome := r.run(t, tt.frame)
			if verdict != tt.verdict || outcome != tt.outcome {
				t.Errorf("verdict %d, %s; want %d, %s", verdict, outcome, tt.verdict, tt.outcome)
			}
			if outcome != state.ForwardRouted {
				if !bytes.Equal(out, tt.frame) {
					t.Errorf("the packet was changed:\n%x\n%x", tt.frame, out)
				}
				return
			}
			checkForwarded(t, tt.frame, out)
		})
	}
}

// checkForwarded holds the whole frame against what routing may change.
func checkForwarded(t *testing.T, in, out []byte) {
	t.Helper()
	want := bytes.Clone(in)
	copy(want[0:6], out[0:6])
	if out[4] != 1 || !bytes.Equal(out[6:12], []byte{2, 0, 0, 0, 0, 1}) {
		t.Errorf("link addresses are %x", out[:12])
	}
	copy(want[6:12], out[6:12])
	if binary.BigEndian.Uint16(in[12:]) == 0x86dd {
		want[21]--
	} else {
		want[22]--
		copy(want[24:26], []byte{0, 0})
		sum := uint32(0)
		for i := 14; i < 34; i += 2 {
			sum += uint32(binary.BigEndian.Uint16(want[i:]))
		}
		sum = sum&0xffff + sum>>16
		binary.BigEndian.PutUint16(want[24:], ^uint16(sum&0xffff+sum>>16))
	}
	if !bytes.Equal(out, want) {
		t.Errorf("what goes out is\n%x\nwant\n%x", out, want)
	}
}

func TestRouteRightsEveryChecksum(t *testing.T) {
	r := testRouter(t)
	for i := range 512 {
		frame := datagram(t, fmt.Sprintf("192.0.%d.%d", i&255, i*7&255), "198.51.100.7", uint8(2+i%254), uint16(i), 4)
		_, out, outcome := r.run(t, frame)
		if outcome != state.ForwardRouted {
			t.Fatalf("outcome is %s", outcome)
		}
		checkForwarded(t, frame, out)
	}
}

func TestRouteNeverReadsBeyondAFrame(t *testing.T) {
	r := testRouter(t)
	for _, whole := range [][]byte{
		datagram(t, "192.0.2.1", "198.51.100.7", 64, 1, 20),
		datagram(t, "2001:db8:ffff::1", "2001:db8:1::7", 64, 1, 20),
	} {
		for n := 14; n < len(whole); n++ {
			verdict, out, outcome := r.run(t, bytes.Clone(whole[:n]))
			if verdict != xdpPass || outcome == state.ForwardRouted || !bytes.Equal(out, whole[:n]) {
				t.Errorf("cut at %d: verdict %d, %s", n, verdict, outcome)
			}
		}
	}
}

func TestAGroupSpreadsFlowsByWeightAndKeepsEachOnOneWay(t *testing.T) {
	r := testRouter(t)
	put(t, r.objects.Nexthops, 9, xdpRouteNexthop{Index: 100, Kind: xdpRouteNexthopKindNEXTHOP_GROUP})
	for i, word := range []uint32{4, 1, 2, 2, 2} { // four members: one part of the first, three of the second
		put(t, r.objects.NexthopGroups, uint32(100+i), word)
	}
	r.route(t, "198.51.200.0/24", 9)
	r.route(t, "2001:db8:9::/48", 9)
	for _, pair := range [][2]string{{"192.0.2.1", "198.51.200.1"}, {"2001:db8:ffff::1", "2001:db8:9::1"}} {
		seen := map[byte]int{}
		const flows = 2000
		for port := range uint16(flows) {
			frame := datagram(t, pair[0], pair[1], 64, port, 8)
			_, first, _ := r.run(t, frame)
			_, again, _ := r.run(t, frame)
			if first[5] != again[5] {
				t.Fatalf("a flow went by %d and by %d", first[5], again[5])
			}
			seen[first[5]]++
		}
		if seen[1]+seen[2] != flows || seen[1] < flows/4-flows/16 || seen[1] > flows/4+flows/16 {
			t.Errorf("flows went %v, want a quarter by 1 and the others by 2", seen)
		}
	}
}

func TestOneWriteMovesAllRoutesOfAGateway(t *testing.T) {
	r := testRouter(t)
	put(t, r.objects.Nexthops, 1, xdpRouteNexthop{Index: 2, Kind: xdpRouteNexthopKindNEXTHOP_NEIGHBOUR})
	for _, frame := range [][]byte{
		datagram(t, "192.0.2.1", "198.51.100.7", 64, 1, 20),
		datagram(t, "2001:db8:ffff::1", "2001:db8:1::7", 64, 1, 20),
	} {
		if _, out, outcome := r.run(t, frame); outcome != state.ForwardRouted || out[5] != 2 {
			t.Errorf("outcome %s, to neighbour %d", outcome, out[5])
		}
	}
}
