package flowtable

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"weft/internal/datapath/datapathtest"
	"weft/internal/datapath/guardtable"
	"weft/internal/state"
)

// Offloaded flows: every vector through the XDP and the TC build. Frames come
// in by lan and leave by wan.

const (
	member4, public4, distant4 = "10.0.0.2", "198.51.100.1", "203.0.113.80"
	member6, distant6          = "2001:db8:1::2", "2001:db8:9::80"
)

// offloader is a bench whose lan is offloaded.
type offloader struct {
	*bench
	flows *Flows
}

func newOffloader(t *testing.T) *offloader {
	t.Helper()
	b := newBench(t, datapathtest.Usual, parts()...)
	b.SetPorts(func(p *state.IngressEntry) {
		p.Translators, p.Roles = 0, p.Roles.With(state.RoleBypass, false).With(state.RoleOffloaded, p.Device == "lan")
	})
	flows, err := Of(b.Datapath).Flows()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { flows.Close() })
	flows.Lease(time.Hour, 2)
	return &offloader{b, flows}
}

// hop writes a way out by wan.
func (o *offloader) hop(number uint32, change func(*state.FlowHop)) state.FlowHop {
	o.T.Helper()
	h := state.FlowHop{
		Device: uint32(o.Links["wan"].Index), Interface: uint32(o.Links["wan"].Index), MTU: 1500, XDP: true,
		Link: state.FlowLink{Dst: [6]byte{2, 0, 0, 0, 1, 1}, Src: o.Links["wan"].MAC},
	}
	change(&h)
	if err := o.flows.SetHop(number, h); err != nil {
		o.T.Fatal(err)
	}
	return h
}

func asItIs(*state.FlowHop) {}

func tuple(p datapathtest.Packet) state.FlowTuple {
	t := state.FlowTuple{Src: datapathtest.Addr(p.From).As16(), Dst: datapathtest.Addr(p.To).As16(), Protocol: p.Protocol}
	switch p.Protocol {
	case 1, 58:
		t.SrcPort, t.DstPort = binary.BigEndian.Uint16(p.Payload[4:]), uint16(p.Payload[0])
	default:
		t.SrcPort, t.DstPort = binary.BigEndian.Uint16(p.Payload), binary.BigEndian.Uint16(p.Payload[2:])
	}
	return t
}

// put writes flows, and has them used.
func (o *offloader) put(list []state.Flow) (int, error) {
	n, err := o.flows.PutFlows(list)
	o.flows.OpenFlows(keysOf(list[:n]))
	return n, err
}

func keysOf(list []state.Flow) (keys []state.FlowKey) {
	for _, f := range list {
		keys = append(keys, f.FlowKey)
	}
	return keys
}

// learn offloads packets like in, which leave like out.
func (o *offloader) learn(in, out datapathtest.Packet, hop uint32) state.Flow {
	o.T.Helper()
	f := state.Flow{
		FlowKey: state.FlowKey{Interface: uint32(o.Links["lan"].Index), Tuple: tuple(in)},
		Becomes: tuple(out), Hop: hop, Generation: o.flows.Generation(),
	}
	if n, err := o.put([]state.Flow{f}); n != 1 || err != nil {
		o.T.Fatal(n, err)
	}
	return f
}

func (o *offloader) one(build string, frame []byte) (datapathtest.Result, state.Outcome) {
	o.T.Helper()
	res := o.Run(build, "lan", frame)[0]
	if build == "ingress_xdp" && res.Err == nil && len(res.Counted) == 0 && res.Verdict == 2 {
		return res, state.PassNotTranslated // left to TC, which counts it
	}
	outcome, err := datapathtest.Variant{Program: build}.Outcome(res)
	if err != nil {
		o.T.Fatalf("%s: %v", build, err)
	}
	return res, outcome
}

// leaves is how a packet looks on the wire behind a hop.
func leaves(h state.FlowHop, p datapathtest.Packet, ttl byte) []byte {
	p.Ttl = ttl
	ip := p.Bytes()
	kind := uint16(0x0800)
	if ip[0]>>4 == 6 {
		kind = 0x86dd
	}
	f := append(append([]byte{}, h.Link.Dst[:]...), h.Link.Src[:]...)
	if h.Link.Session != 0 {
		ppp := map[uint16]uint16{0x0800: 0x21, 0x86dd: 0x57}[kind]
		f = binary.BigEndian.AppendUint16(f, 0x8864)
		f = append(f, 0x11, 0)
		f = binary.BigEndian.AppendUint16(f, h.Link.Session)
		f = binary.BigEndian.AppendUint16(f, uint16(len(ip)+2))
		kind = ppp
	}
	return datapathtest.Tagged(append(binary.BigEndian.AppendUint16(f, kind), ip...), h.Link.Tags, 0)
}

// udpBetween is udp with ports of its own.
func udpBetween(from, to string, sport, dport uint16, n int) datapathtest.Packet {
	p := datapathtest.Udp(from, to, n)
	binary.BigEndian.PutUint16(p.Payload, sport)
	binary.BigEndian.PutUint16(p.Payload[2:], dport)
	p.Payload[6], p.Payload[7] = 0, 0
	p.Payload = datapathtest.Seal(p.Payload, 6, from, to, 17)
	return p
}

func tcpBetween(from, to string, sport, dport uint16, flags byte, n int) datapathtest.Packet {
	p := datapathtest.Tcp(from, to, flags, nil, n)
	binary.BigEndian.PutUint16(p.Payload, sport)
	binary.BigEndian.PutUint16(p.Payload[2:], dport)
	p.Payload[16], p.Payload[17] = 0, 0
	p.Payload = datapathtest.Seal(p.Payload, 16, from, to, 6)
	return p
}

func TestFlowsAreRewrittenAsNATDoes(t *testing.T) {
	o := newOffloader(t)
	o.hop(1, asItIs)
	for _, v := range []struct {
		name    string
		in, out datapathtest.Packet
	}{
		{"TCP, nothing changes", tcpBetween(member4, distant4, 1000, 80, 0x18, 50), tcpBetween(member4, distant4, 1000, 80, 0x18, 50)},
		{"TCP, masqueraded", tcpBetween(member4, distant4, 1000, 80, 0x10, 51), tcpBetween(public4, distant4, 2000, 80, 0x10, 51)},
		{"TCP, its destination changes", tcpBetween(distant4, public4, 80, 2000, 0x18, 52), tcpBetween(distant4, member4, 80, 1000, 0x18, 52)},
		{"TCP, ports alone", tcpBetween(member4, distant4, 1000, 80, 0x10, 1), tcpBetween(member4, distant4, 1001, 81, 0x10, 1)},
		{"UDP, masqueraded", udpBetween(member4, distant4, 1000, 53, 33), udpBetween(public4, distant4, 2000, 53, 33)},
		{"UDP, both ends change", udpBetween(member4, distant4, 1000, 53, 33), udpBetween(public4, "192.0.2.53", 2000, 5353, 33)},
		{"UDP of IPv6, nothing changes", udpBetween(member6, distant6, 1000, 53, 33), udpBetween(member6, distant6, 1000, 53, 33)},
		{"UDP of IPv6, its source changes", udpBetween(member6, distant6, 1000, 53, 33), udpBetween("2001:db8:7::1", distant6, 1234, 53, 33)},
		{"TCP of IPv6, its destination changes", tcpBetween(member6, distant6, 1000, 80, 0x18, 9), tcpBetween(member6, "2001:db8:7::80", 1000, 8080, 0x18, 9)},
		{"an echo", datapathtest.Echo(member4, distant4, false, 56), datapathtest.Echo(public4, distant4, false, 56)},
		{"an echo of IPv6", datapathtest.Echo(member6, distant6, false, 56), datapathtest.Echo("2001:db8:7::1", distant6, false, 56)},
	} {
		f := o.learn(v.in, v.out, 1)
		h := o.hop(1, asItIs)
		for _, build := range datapathtest.Builds {
			res, got := o.one(build, o.Frame("lan", v.in.Bytes()))
			if err := datapathtest.Differs(res, got, state.ForwardFlow, datapathtest.VerdictOf(build, state.ForwardRouted), leaves(h, v.out, 63)); err != nil {
				t.Errorf("%s: %s: %v", build, v.name, err)
			}
		}
		if err := o.flows.DeleteFlows([]state.FlowKey{f.FlowKey}); err != nil {
			t.Fatal(err)
		}
		if _, got := o.one("ingress_xdp", o.Frame("lan", v.in.Bytes())); got == state.ForwardFlow {
			t.Errorf("%s: it is forwarded after it was taken back", v.name)
		}
	}
}

// Between a flow and its use its packets are the stack's; where a connection ends, or
// another begins, in that time, they stay the stack's, both ways.
func TestAPendingFlowIsUsedOnlyIfNothingBeganMeanwhile(t *testing.T) {
	o := newOffloader(t)
	o.hop(1, asItIs)
	in, out := tcpBetween(member4, distant4, 1000, 80, 0x18, 50), tcpBetween(public4, distant4, 2000, 80, 0x18, 50)
	flow := o.learn(in, out, 1)
	expect := func(when, build string, p datapathtest.Packet, want state.Outcome) {
		t.Helper()
		frame := o.Frame("lan", p.Bytes())
		res, got := o.one(build, frame)
		if got != want || want != state.ForwardFlow && !bytes.Equal(res.Frame, frame) {
			t.Errorf("%s: %s: met %s, want %s", build, when, got, want)
		}
	}
	again := func() {
		t.Helper()
		if n, err := o.flows.PutFlows([]state.Flow{flow}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	for _, build := range datapathtest.Builds {
		for name, flags := range map[string]byte{"FIN": 0x11, "SYN": 0x02, "RST": 0x04} {
			again()
			expect("pending", build, in, state.PassFlowStale)
			o.flows.OpenFlows([]state.FlowKey{flow.FlowKey})
			expect("open", build, in, state.ForwardFlow)
			again()
			expect("pending again", build, in, state.PassFlowStale)
			expect(name+" while it is pending", build, tcpBetween(member4, distant4, 1000, 80, flags, 0), state.PassFlowEnding)
			o.flows.OpenFlows([]state.FlowKey{flow.FlowKey})
			expect("opened after a "+name, build, in, state.PassFlowEnding)
		}
	}
	if err := o.flows.Each(func(u state.FlowUse) {
		if !u.Closed {
			t.Errorf("it shows %+v, and not that it has ended", u)
		}
	}); err != nil {
		t.Fatal(err)
	}
}

func TestUDPWithoutChecksumStaysWithout(t *testing.T) {
	o := newOffloader(t)
	h := o.hop(1, asItIs)
	in, out := udpBetween(member4, distant4, 1000, 53, 33), udpBetween(public4, distant4, 2000, 53, 33)
	in.Payload, out.Payload = datapathtest.With(in.Payload, 6, 0, 0), datapathtest.With(out.Payload, 6, 0, 0)
	o.learn(in, out, 1)
	for _, build := range datapathtest.Builds {
		res, got := o.one(build, o.Frame("lan", in.Bytes()))
		if err := datapathtest.Differs(res, got, state.ForwardFlow, datapathtest.VerdictOf(build, state.ForwardRouted), leaves(h, out, 63)); err != nil {
			t.Errorf("%s: %v", build, err)
		}
	}
}

func TestWhatFlowsLeaveToTheStackIsUntouched(t *testing.T) {
	o := newOffloader(t)
	o.hop(1, asItIs)
	in, out := tcpBetween(member4, distant4, 1000, 80, 0x18, 50), tcpBetween(public4, distant4, 2000, 80, 0x18, 50)
	with4 := func(change func(*datapathtest.Packet)) []byte {
		p := in
		change(&p)
		return p.Bytes()
	}
	flags := func(f byte) []byte { return tcpBetween(member4, distant4, 1000, 80, f, 50).Bytes() }
	wrong := func() []byte { b := in.Bytes(); b[10] ^= 1; return b }()
	for _, v := range []struct {
		name   string
		in     []byte
		before func()
		want   state.Outcome
	}{
		{"a FIN", flags(0x11), nil, state.PassFlowEnding},
		{"a RST", flags(0x04), nil, state.PassFlowEnding},
		{"a SYN", flags(0x02), nil, state.PassFlowEnding},
		{"urgent data", flags(0x38), nil, state.PassOptions},
		{"a TTL that ends", with4(func(p *datapathtest.Packet) { p.Ttl = 1 }), nil, state.PassTtl},
		{"a fragment", with4(func(p *datapathtest.Packet) { p.Flags = 0x2000 }), nil, state.PassNotTranslated},
		{"options", with4(func(p *datapathtest.Packet) { p.Options = datapathtest.Bin("01010101") }), nil, state.PassNotTranslated},
		{"a wrong header checksum", wrong, nil, state.PassOptions},
		{"a packet larger than the way out", in.Bytes(), func() { o.hop(1, func(h *state.FlowHop) { h.MTU = 80 }) }, state.PassTooBig},
		{"a way out that is withdrawn", in.Bytes(), func() { o.hop(1, func(h *state.FlowHop) { h.Device = 0 }) }, state.PassFlowStale},
		{"another ruleset", in.Bytes(), func() { o.flows.Bump() }, state.PassFlowStale},
		{"a lease that has ended", in.Bytes(), func() { o.flows.Lease(-time.Second, 2) }, state.PassFlowStale},
	} {
		o.hop(1, asItIs)
		o.flows.Lease(time.Hour, 2)
		for _, build := range datapathtest.Builds {
			f := o.learn(in, out, 1)
			if v.before != nil {
				v.before()
			}
			frame := o.Frame("lan", v.in)
			res, got := o.one(build, frame)
			if got != v.want || !bytes.Equal(res.Frame, frame) {
				t.Errorf("%s: %s: met %s, want %s; untouched: %v", build, v.name, got, v.want, bytes.Equal(res.Frame, frame))
			}
			if err := o.flows.DeleteFlows([]state.FlowKey{f.FlowKey}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestTheEndOfAFlowEndsTheOtherDirection(t *testing.T) {
	o := newOffloader(t)
	o.hop(1, asItIs)
	o.hop(2, func(h *state.FlowHop) { h.Interface = uint32(o.Links["lan"].Index) })
	out, back := tcpBetween(member4, distant4, 1000, 80, 0x18, 5), tcpBetween(distant4, public4, 80, 2000, 0x18, 5)
	for _, build := range datapathtest.Builds {
		// both directions arrive by lan here
		o.learn(out, tcpBetween(public4, distant4, 2000, 80, 0x18, 5), 2)
		o.learn(back, tcpBetween(distant4, member4, 80, 1000, 0x18, 5), 2)
		if _, got := o.one(build, o.Frame("lan", back.Bytes())); got != state.ForwardFlow {
			t.Errorf("%s: before the end: %s", build, got)
		}
		o.one(build, o.Frame("lan", tcpBetween(member4, distant4, 1000, 80, 0x11, 0).Bytes()))
		for _, p := range []datapathtest.Packet{out, back} {
			if _, got := o.one(build, o.Frame("lan", p.Bytes())); got != state.PassFlowEnding {
				t.Errorf("%s: after a FIN: %s", build, got)
			}
		}
	}
}

func TestFlowsGetTheTagsAndTheSessionOfTheirWay(t *testing.T) {
	o := newOffloader(t)
	in, out := udpBetween(member4, distant4, 1000, 53, 20), udpBetween(public4, distant4, 2000, 53, 20)
	in6, out6 := udpBetween(member6, distant6, 1000, 53, 20), udpBetween("2001:db8:7::1", distant6, 1234, 53, 20)
	for _, tags := range []state.VLANTags{datapathtest.NoTags, datapathtest.Vlan7, datapathtest.Service, datapathtest.Qinq} {
		for _, session := range []uint16{0, 0x1234} {
			h := o.hop(1, func(h *state.FlowHop) { h.Link.Tags, h.Link.Session = tags, session })
			for _, v := range [][2]datapathtest.Packet{{in, out}, {in6, out6}} {
				o.learn(v[0], v[1], 1)
				for _, build := range datapathtest.Builds {
					res, got := o.one(build, o.Frame("lan", v[0].Bytes()))
					want := datapathtest.Seen(build, leaves(h, v[1], 63), tags)
					if err := datapathtest.Differs(res, got, state.ForwardFlow, datapathtest.VerdictOf(build, state.ForwardRouted), want); err != nil {
						t.Errorf("%s: to %q, session %#x: %v", build, tags, session, err)
					}
				}
			}
		}
	}
}

func TestFlowsArriveInTagsAndSessions(t *testing.T) {
	o := newOffloader(t)
	h := o.hop(1, asItIs)
	apply := func(obj state.Object) {
		o.In(func() error {
			return o.Datapath.Apply(t.Context(), state.Step{Op: state.Add, Object: obj})
		})
	}
	apply(state.IngressEntry{Device: "#9001", MAC: datapathtest.Mac7, Roles: state.RoleOffloaded})
	apply(state.Lower{Device: "lan", Tags: datapathtest.Qinq, Upper: "#9001"})
	peer := [6]byte{0x02, 0, 0, 0, 0x77, 0x77}
	for below, ppp := range map[uint32]uint32{uint32(o.Links["lan"].Index): 9011, 9001: 9012} {
		if err := o.flows.SetSession(state.FlowSession{Below: below, Session: 0x1234, Peer: peer}, ppp); err != nil {
			t.Fatal(err)
		}
	}
	in, out := udpBetween(distant4, public4, 53, 2000, 20), udpBetween(distant4, member4, 53, 1000, 20)
	in6 := udpBetween(distant6, member6, 53, 1000, 20)
	for _, index := range []uint32{9001, 9011, 9012} {
		for _, v := range [][2]datapathtest.Packet{{in, out}, {in6, in6}} {
			f := state.Flow{FlowKey: state.FlowKey{Interface: index, Tuple: tuple(v[0])}, Becomes: tuple(v[1]), Hop: 1, Generation: o.flows.Generation()}
			if _, err := o.put([]state.Flow{f}); err != nil {
				t.Fatal(err)
			}
			plain := o.Frame("lan", v[0].Bytes())
			if index != 9001 {
				session := state.FlowHop{Link: state.FlowLink{Session: 0x1234, Src: peer, Dst: o.Links["lan"].MAC}}
				plain = leaves(session, v[0], 0)
			}
			frame := plain
			if index != 9011 {
				frame = datapathtest.Tagged(datapathtest.To(plain, datapathtest.Mac7), datapathtest.Qinq, 0)
			}
			for _, build := range datapathtest.Builds {
				res, got := o.one(build, frame)
				if err := datapathtest.Differs(res, got, state.ForwardFlow, datapathtest.VerdictOf(build, state.ForwardRouted), leaves(h, v[1], 63)); err != nil {
					t.Errorf("%s: of interface %d: %v", build, index, err)
				}
			}
			strange := bytes.Clone(frame)
			strange[11] ^= 1 // another peer
			for _, build := range datapathtest.Builds {
				if index == 9001 {
					continue
				}
				if res, got := o.one(build, strange); got == state.ForwardFlow || !bytes.Equal(res.Frame, strange) {
					t.Errorf("%s: a session of another peer: %s", build, got)
				}
			}
		}
	}
}

func TestFlowsCountWhatTheyCarry(t *testing.T) {
	o := newOffloader(t)
	o.hop(1, asItIs)
	in := udpBetween(member4, distant4, 1000, 53, 100)
	f := o.learn(in, in, 1)
	for range 3 {
		o.one("ingress_xdp", o.Frame("lan", in.Bytes()))
	}
	found := 0
	err := o.flows.Each(func(u state.FlowUse) {
		found++
		if u.Flow != f || u.Packets != 3 || u.Bytes != 3*128 || u.Closed || u.Idle > time.Minute {
			t.Errorf("%+v", u)
		}
	})
	if err != nil || found != 1 {
		t.Errorf("%d flows, %v", found, err)
	}
}

// The guard comes before flows: a source that is on the block list is refused,
// whatever was offloaded before.
func TestABlockedSourceIsNotForwardedByItsFlow(t *testing.T) {
	for _, build := range datapathtest.Builds {
		o := newOffloader(t)
		o.hop(1, asItIs)
		in := tcpBetween(member4, distant4, 1000, 80, 0x18, 50)
		o.learn(in, tcpBetween(public4, distant4, 2000, 80, 0x18, 50), 1)
		o.SetPorts(func(p *state.IngressEntry) {
			p.Translators, p.Roles = 0, p.Roles.With(state.RoleBypass, false).With(state.RoleOffloaded|state.RoleGuarded, p.Device == "lan")
		})
		o.In(func() error {
			return o.Datapath.Apply(t.Context(), state.Step{Op: state.Add, Object: state.Guard{Device: "lan", XDP: build == "ingress_xdp"}})
		})
		if _, got := o.one(build, o.Frame("lan", in.Bytes())); got != state.ForwardFlow {
			t.Errorf("%s: before it is blocked: %s", build, got)
		}
		if err := guardtable.Of(o.Datapath).SetGuardList([]state.GuardEntry{{Prefix: netip.MustParsePrefix(member4 + "/32"), Listed: state.ListedBlocked}}); err != nil {
			t.Fatal(err)
		}
		if _, got := o.one(build, o.Frame("lan", in.Bytes())); got != state.DropBlocked {
			t.Errorf("%s: when it is blocked: %s", build, got)
		}
		if err := guardtable.Of(o.Datapath).SetGuardList(nil); err != nil {
			t.Fatal(err)
		}
	}
}

// Random NAT, both builds: what leaves is what a packet between the new
// addresses and ports would be, every checksum included.
func TestRandomFlows(t *testing.T) {
	o := newOffloader(t)
	h := o.hop(1, asItIs)
	r := rand.New(rand.NewPCG(1, 2))
	address := func(is6 bool) string {
		if is6 {
			a := netip.MustParseAddr("2001:db8::").As16()
			for i := 4; i < 16; i++ {
				a[i] = byte(r.Uint32())
			}
			return netip.AddrFrom16(a).String()
		}
		return netip.AddrFrom4([4]byte{byte(1 + r.IntN(100)), byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32())}).String()
	}
	for i := range 2000 {
		if i == 1000 {
			// what comes before flows keeps XDP from the short way (flow_fast.h)
			o.SetPorts(func(p *state.IngressEntry) {
				p.Translators, p.Roles = 0, p.Roles.With(state.RoleBypass, false).With(state.RoleOffloaded|state.RoleGuarded, p.Device == "lan")
			})
		}
		is6 := r.IntN(2) == 0
		from, dest, from2, dest2 := address(is6), address(is6), address(is6), address(is6)
		p, q, p2, q2 := uint16(r.Uint32()), uint16(r.Uint32()), uint16(r.Uint32()), uint16(r.Uint32())
		switch r.IntN(4) { // NAT mostly changes one end alone
		case 0:
			p2, q2 = p, q
		case 1:
			dest2, q2 = dest, q
		case 2:
			from2, dest2, p2 = from, dest, p
		}
		n := r.IntN(1400)
		in, out := udpBetween(from, dest, p, q, n), udpBetween(from2, dest2, p2, q2, n)
		if r.IntN(2) == 0 {
			in, out = tcpBetween(from, dest, p, q, 0x10, n), tcpBetween(from2, dest2, p2, q2, 0x10, n)
		}
		f := o.learn(in, out, 1)
		for _, build := range datapathtest.Builds {
			res, got := o.one(build, o.Frame("lan", in.Bytes()))
			if err := datapathtest.Differs(res, got, state.ForwardFlow, datapathtest.VerdictOf(build, state.ForwardRouted), leaves(h, out, 63)); err != nil {
				t.Fatalf("%s: %d: %s becomes %s: %v", build, i, f.Tuple, f.Becomes, err)
			}
		}
		if err := o.flows.DeleteFlows([]state.FlowKey{f.FlowKey}); err != nil {
			t.Fatal(err)
		}
	}
}
