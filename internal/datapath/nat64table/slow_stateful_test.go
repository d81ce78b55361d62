package nat64table

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"weft/internal/datapath/datapathtest"
	"weft/internal/state"
	"weft/internal/translate"
)

// The slow path of stateful translation over the programs' own tables: whole
// packets come out as the programs would have made them.

// slow is the slow path over a bench.
type slow struct {
	b        *bench
	stateful translate.Stateful
	now      int64
}

func newSlow(t *testing.T, toml string) *slow {
	t.Helper()
	b := newStateful(t, toml)
	r := &Resolver{Of(b.Datapath), b.Program("nat64_resolve"), func() uint32 { return 1000 }}
	b.Reference.MTU4, b.Reference.MTU6 = 0, 0
	return &slow{b: b, stateful: translate.Stateful{Bindings: r, Parts: translate.NewReassembler()}}
}

func (s *slow) translate(ip []byte) (r translate.Result) {
	s.b.In(func() error {
		if datapathtest.IsIPv4(ip) {
			r = s.stateful.Translate4(s.b.Reference, s.now, ip)
		} else {
			r = s.stateful.Translate6(s.b.Reference, s.now, ip)
		}
		return nil
	})
	return r
}

// bind opens a session along the programs' own road and gives its pool side.
func (s *slow) bind(f flow) netip.AddrPort {
	s.b.T.Helper()
	r := datapathtest.Variants()[3]
	s.b.TakeVariant(r)
	bound, _ := datapathtest.Ends(s.b.cross(r, "open", f, to4))
	return bound
}

// cut6 cuts an IPv6 packet into fragments of at most n bytes of payload.
func cut6(p datapathtest.Packet, n int) (list [][]byte) {
	whole := p.Payload
	for at := 0; at < len(whole); at += n {
		end, more := min(at+n, len(whole)), byte(0)
		if end < len(whole) {
			more = 1
		}
		head := []byte{p.Protocol, 0, byte(at >> 8), byte(at) | more, 0, 0, 0x77, 0x77}
		q := p
		q.Protocol, q.Payload = 44, append(head, whole[at:end]...)
		list = append(list, q.Bytes())
	}
	return list
}

// cut4 likewise.
func cut4(p datapathtest.Packet, n int) (list [][]byte) {
	whole := p.Payload
	for at := 0; at < len(whole); at += n {
		q := p
		q.Id, q.Flags, q.Payload = 0x7777, at/8, whole[at:min(at+n, len(whole))]
		if at+n < len(whole) {
			q.Flags |= 0x2000
		}
		list = append(list, q.Bytes())
	}
	return list
}

// joined puts the fragments that came out together again, and gives the
// addresses, the protocol and the payload of the whole.
func joined(t *testing.T, fragments [][]byte) (datapathtest.Packet, []byte) {
	t.Helper()
	var p datapathtest.Packet
	whole := []byte{}
	for _, f := range fragments {
		if datapathtest.IsIPv4(f) {
			p = datapathtest.Packet{From: datapathtest.AddrOf(f[12:16]), To: datapathtest.AddrOf(f[16:20]), Protocol: f[9]}
			if at := int(binary.BigEndian.Uint16(f[6:])&0x1fff) * 8; at != len(whole) {
				t.Fatalf("a fragment at %d, want %d", at, len(whole))
			}
			whole = append(whole, f[20:]...)
			continue
		}
		p = datapathtest.Packet{From: datapathtest.AddrOf(f[8:24]), To: datapathtest.AddrOf(f[24:40]), Protocol: f[6]}
		if f[6] != 44 {
			whole = append(whole, f[40:]...)
			continue
		}
		p.Protocol = f[40]
		if at := int(binary.BigEndian.Uint16(f[42:]) &^ 7); at != len(whole) {
			t.Fatalf("a fragment at %d, want %d", at, len(whole))
		}
		whole = append(whole, f[48:]...)
	}
	return p, whole
}

func TestFragmentsCrossInAnyOrder(t *testing.T) {
	s := newSlow(t, shared)
	s.b.Reference.MTU4 = 1500
	client, far := netip.MustParseAddrPort(client6), netip.MustParseAddrPort(remote6)
	bound := s.bind(flow{client6, remote6, 17, 0})
	for _, backwards := range []bool{false, true} {
		data := datapathtest.Counting(3000)
		seg := datapathtest.UdpSegment(client.Addr().String(), far.Addr().String(), data)
		binary.BigEndian.PutUint16(seg, client.Port())
		binary.BigEndian.PutUint16(seg[2:], far.Port())
		datapathtest.Seal(seg, 6, client.Addr().String(), far.Addr().String(), 17)
		fragments := cut6(datapathtest.Packet{From: client.Addr().String(), To: far.Addr().String(), Protocol: 17, Payload: seg}, 1232)
		want := slices.Clone(seg)
		binary.BigEndian.PutUint16(want, bound.Port())
		datapathtest.Seal(want, 6, bound.Addr().String(), "8.8.8.8", 17)
		s.crossCut(t, fragments, backwards, datapathtest.Packet{From: bound.Addr().String(), To: "8.8.8.8", Protocol: 17}, want, to4)

		seg = datapathtest.UdpSegment("8.8.8.8", bound.Addr().String(), data)
		binary.BigEndian.PutUint16(seg, 53)
		binary.BigEndian.PutUint16(seg[2:], bound.Port())
		datapathtest.Seal(seg, 6, "8.8.8.8", bound.Addr().String(), 17)
		fragments = cut4(datapathtest.Packet{From: "8.8.8.8", To: bound.Addr().String(), Protocol: 17, Payload: seg}, 1480)
		want = slices.Clone(seg)
		binary.BigEndian.PutUint16(want[2:], client.Port())
		datapathtest.Seal(want, 6, far.Addr().String(), client.Addr().String(), 17)
		s.crossCut(t, fragments, backwards, datapathtest.Packet{From: far.Addr().String(), To: client.Addr().String(), Protocol: 17}, want, to6)
	}
}

// crossCut sends fragments and compares what comes of the last one.
func (s *slow) crossCut(t *testing.T, fragments [][]byte, backwards bool, want datapathtest.Packet, payload []byte, o state.Outcome) {
	t.Helper()
	if backwards {
		slices.Reverse(fragments)
	}
	for i, f := range fragments {
		r := s.translate(f)
		if i < len(fragments)-1 {
			if r.Outcome != state.SlowFragment || r.Out != nil {
				t.Fatalf("fragment %d met %s", i, r.Outcome)
			}
			continue
		}
		if r.Outcome != o {
			t.Fatalf("the last fragment met %s, want %s", r.Outcome, o)
		}
		got, whole := joined(t, r.Out)
		if got.From != want.From || got.To != want.To || got.Protocol != want.Protocol {
			t.Errorf("from %s to %s by %d, want from %s to %s", got.From, got.To, got.Protocol, want.From, want.To)
		}
		if !bytes.Equal(whole, payload) {
			t.Errorf("carries\n%x, want\n%x", whole[:40], payload[:40])
		}
	}
}

func TestFragmentsThatOverlapOrAreTooLateAreDropped(t *testing.T) {
	s := newSlow(t, shared)
	p := datapathtest.Packet{From: "2001:db8:3::77", To: "64:ff9b:1::8.8.8.8", Protocol: 17, Payload: datapathtest.UdpSegment("2001:db8:3::77", "64:ff9b:1::8.8.8.8", datapathtest.Counting(2000))}
	f := cut6(p, 1232)
	s.translate(f[0])
	if r := s.translate(f[0]); r.Outcome != state.DropReassembly {
		t.Errorf("the same part twice met %s (RFC 5722)", r.Outcome)
	}
	s.translate(f[0])
	s.now += 6e9
	if r := s.translate(f[1]); r.Outcome != state.SlowFragment || s.stateful.Parts.Lost != 1 {
		t.Errorf("six seconds late: %s, %d lost", r.Outcome, s.stateful.Parts.Lost)
	}
}

func TestErrorsCrossThroughSessionsOnly(t *testing.T) {
	for _, protocol := range []byte{6, 17, 1} {
		s := newSlow(t, shared)
		to, remote := remote6, remote4
		flags := byte(2)
		if protocol == 1 {
			to, remote, flags = "[64:ff9b:1::8.8.8.8]:4000", "8.8.8.8:0", 1
		}
		bound := s.bind(flow{client6, to, protocol, flags})
		if protocol == 1 {
			remote = netip.AddrPortFrom(netip.MustParseAddr("8.8.8.8"), bound.Port()).String()
		}
		out := flow{bound.String(), remote, protocol, flags}.packet().Bytes()
		in := flow{client6, to, protocol, flags}.packet().Bytes()
		// from a router of the IPv4 Internet
		r := s.translate(datapathtest.Packet{From: "7.7.7.7", To: bound.Addr().String(), Protocol: 1, Payload: datapathtest.Message("7.7.7.7", bound.Addr().String(), 3, 1, "00000000", out)}.Bytes())
		want := datapathtest.Packet{From: "64:ff9b:1::7.7.7.7", To: "2001:db8:3::77", Protocol: 58, Payload: datapathtest.Message("64:ff9b:1::7.7.7.7", "2001:db8:3::77", 1, 0, "00000000", in)}.Bytes()
		if r.Outcome != to6 || len(r.Out) != 1 || !bytes.Equal(r.Out[0], want) {
			t.Errorf("protocol %d: an error from IPv4 met %s and made\n%x, want\n%x", protocol, r.Outcome, r.Out, want)
		}
		// from a router of the IPv6 network, about an answer
		answer := byte(0x12)
		if protocol == 1 {
			answer = 0
		}
		back := flow{to, client6, protocol, answer}.packet().Bytes()
		r = s.translate(datapathtest.Packet{From: "2001:db8:99::1", To: "64:ff9b:1::8.8.8.8", Protocol: 58, Payload: datapathtest.Message("2001:db8:99::1", "64:ff9b:1::8.8.8.8", 1, 0, "00000000", back)}.Bytes())
		quote := flow{remote, bound.String(), protocol, answer}.packet().Bytes()
		want = datapathtest.Packet{From: bound.Addr().String(), To: "8.8.8.8", Protocol: 1, Payload: datapathtest.Message(bound.Addr().String(), "8.8.8.8", 3, 1, "00000000", quote)}.Bytes()
		if r.Outcome != to4 || len(r.Out) != 1 || !bytes.Equal(sameQuote(anyID(r.Out[0])), sameQuote(anyID(want))) {
			t.Errorf("protocol %d: an error from IPv6 met %s and made\n%x, want\n%x", protocol, r.Outcome, r.Out, want)
		}
		// made up: another remote port, another pool port
		for _, lie := range []flow{{bound.String(), "8.8.8.9:53", protocol, flags}, {netip.AddrPortFrom(bound.Addr(), bound.Port()^1).String(), remote, protocol, flags}} {
			p := datapathtest.Packet{From: "7.7.7.7", To: bound.Addr().String(), Protocol: 1, Payload: datapathtest.Message("7.7.7.7", bound.Addr().String(), 3, 1, "00000000", lie.packet().Bytes())}
			if r := s.translate(p.Bytes()); r.Outcome != state.DropNoBinding || r.Out != nil || r.Reply != nil {
				t.Errorf("protocol %d: a made-up error met %s", protocol, r.Outcome)
			}
		}
	}
}

// sameQuote takes out of an ICMP error what translation chooses in the header
// it quotes: identification, and the checksums over it.
func sameQuote(ip []byte) []byte {
	ip = bytes.Clone(ip)
	quote := ip[28:]
	copy(quote[4:6], "\x00\x00")
	copy(quote[10:12], "\x00\x00")
	copy(ip[22:24], "\x00\x00")
	return ip
}

// RFC 6146 section 3.4: protocols without ports are not translated, and the IPv6
// sender gets an ICMP error.
func TestOtherTransportsAreRefused(t *testing.T) {
	s := newSlow(t, shared)
	sctp := flow{client6, remote6, 17, 0}.packet()
	sctp.Protocol = 132
	r1 := datapathtest.Variants()[1]
	s.b.TakeVariant(r1)
	if res := s.b.Run(r1.Program, r1.From(sctp.Bytes()), s.b.Frame(datapathtest.Side(sctp.Bytes()), sctp.Bytes()))[0]; res.Counted["ingress_tc slow-error-due"] != 1 {
		t.Errorf("the program counted %v, want it to leave the answer to the slow path", res.Counted)
	}
	r := s.translate(sctp.Bytes())
	if r.Outcome != state.DropProtocol || len(r.Reply) < 48 || r.Reply[40] != 1 || r.Reply[41] != 4 {
		t.Errorf("met %s, answered %x (RFC 6146 section 3.4: port unreachable)", r.Outcome, r.Reply)
	}
}

func TestTheSenderOfARefusedPacketIsTold(t *testing.T) {
	s := newSlow(t, shared+"ports_per_subscriber = 1\n")
	s.bind(flow{client6, remote6, 17, 0})
	r := s.translate(flow{"[2001:db8:3::77]:4002", remote6, 17, 0}.packet().Bytes())
	if r.Outcome != state.DropSubscriberLimit || len(r.Reply) < 48 || r.Reply[40] != 1 || r.Reply[41] != 3 {
		t.Errorf("met %s, answered %x (RFC 6146 3.5.1.1: address unreachable)", r.Outcome, r.Reply)
	}
	if r := s.translate(flow{client6, remote6, 17, 0}.packet().Bytes()); r.Outcome != to4 {
		t.Errorf("the one that has a port met %s", r.Outcome)
	}
	if n := s.b.count("nat64_sessions"); n != 1 {
		t.Errorf("%d sessions, want one", n)
	}
}
