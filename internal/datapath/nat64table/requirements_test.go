package nat64table

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"weft/internal/datapath"
	"weft/internal/datapath/datapathtest"
	"weft/internal/state"
)

// What RFC 4787, 5382 and 5508 ask for by number, along each road. The table in
// docs/features/nat64-stateful.md says which test stands for which requirement.

// sessionsOf returns the words of all sessions.
func (b *bench) sessionsOf() []uint64 {
	b.T.Helper()
	list, err := datapath.Collect(b.Datapath, "nat64_sessions", func(_ sessionKey, v sessionValue) uint64 { return v.Word })
	if err != nil {
		b.T.Fatal(err)
	}
	return list
}

// RFC 4787 REQ-1, RFC 5382 REQ-1, RFC 5508 REQ-1: one binding for all
// destinations, and one for each protocol.
func TestEachProtocolBindsOnceForAllDestinations(t *testing.T) {
	onEachVariant(t, shared, func(b *bench, r datapathtest.Variant) {
		for _, c := range []struct{ protocol, flags byte }{{6, 2}, {17, 0}, {1, 1}} {
			var first netip.AddrPort
			for _, host := range []string{"8.8.8.8", "9.9.9.9", "7.7.7.7"} {
				bound, _ := datapathtest.Ends(b.cross(r, host, flow{client6, fmt.Sprintf("[64:ff9b:1::%s]:4000", host), c.protocol, c.flags}, to4))
				if first.IsValid() && bound != first {
					b.T.Errorf("protocol %d: bound to %s and %s", c.protocol, first, bound)
				}
				first = bound
			}
		}
		if n, m := b.count("nat64_bib6"), b.count("nat64_sessions"); n != 3 || m != 9 {
			b.T.Errorf("%d bindings and %d sessions, want 3 and 9", n, m)
		}
	})
}

// RFC 4787 REQ-2, RFC 6888 REQ-2: all that a subscriber sends comes from one
// address, whatever the node, the port and the protocol; and subscribers are
// spread over the addresses.
func TestASubscriberStaysOnOneAddress(t *testing.T) {
	toml := strings.Replace(shared, `"192.0.2.1", ports = "1-65535"`, `"192.0.2.0/28"`, 1)
	onEachVariant(t, toml, func(b *bench, r datapathtest.Variant) {
		used := map[netip.Addr]bool{}
		for subscriber := range 24 {
			var first netip.Addr
			for i := range 6 {
				from := fmt.Sprintf("[2001:db8:4:%x::%x]:%d", subscriber, 1+i/3, 4000+i)
				protocol := []byte{6, 17, 1}[i%3]
				to := remote6
				if protocol == 1 {
					to = fmt.Sprintf("[64:ff9b:1::8.8.8.8]:%d", 4000+i)
				}
				bound, _ := datapathtest.Ends(b.cross(r, from, flow{from, to, protocol, []byte{2, 0, 1}[i%3]}, to4))
				if first.IsValid() && bound.Addr() != first {
					b.T.Errorf("subscriber %d is %s and %s", subscriber, first, bound.Addr())
				}
				first = bound.Addr()
			}
			used[first] = true
		}
		if len(used) < 6 {
			b.T.Errorf("24 subscribers share %d of 16 addresses", len(used))
		}
	})
}

// RFC 6056, RFC 6888 REQ-15: the next port cannot be predicted from those before.
func TestPortsFollowNoOrder(t *testing.T) {
	b := newStateful(t, shared)
	r := &Resolver{Of(b.Datapath), b.Program("nat64_resolve"), func() uint32 { return 1000 }}
	var ports []int
	b.In(func() error {
		for i := range 64 {
			got, o := r.Resolve(state.Tuple{Protocol: 6, From: netip.AddrPortFrom(datapathtest.Addr("2001:db8:3::1"), uint16(4000+i)), To: netip.MustParseAddrPort(remote6), Flags: 2})
			if o != state.OutcomeNone {
				return fmt.Errorf("met %s", o)
			}
			ports = append(ports, int(got.From.Port()))
		}
		return nil
	})
	steps, high := map[int]int{}, 0
	for i, p := range ports[1:] {
		steps[p-ports[i]]++
	}
	for _, p := range ports {
		if p >= 32768 {
			high++
		}
	}
	for step, n := range steps {
		if n > 4 {
			t.Errorf("%d of 63 steps are %d", n, step)
		}
	}
	if high < 8 || high > 56 {
		t.Errorf("%d of 64 ports are in the upper half", high)
	}
}

// RFC 4787 REQ-9 a, RFC 5382 REQ-8 a: a node that another one reaches by its
// shared address sees the shared address and port of that one, and answers there.
func TestHairpinnedPacketsComeFromTheSharedAddress(t *testing.T) {
	for _, c := range []struct{ protocol, ask, answer byte }{{6, 2, 0x12}, {17, 0, 0}} {
		onEachVariant(t, shared, func(b *bench, r datapathtest.Variant) {
			const other6 = "[2001:db8:3::99]:5000"
			other, _ := datapathtest.Ends(b.cross(r, "the other opens", flow{other6, remote6, c.protocol, c.ask}, to4))
			to := fmt.Sprintf("[64:ff9b:1::%s]:%d", other.Addr(), other.Port())
			bound, _ := datapathtest.Ends(b.cross(r, "out", flow{client6, to, c.protocol, c.ask}, to4))
			from := fmt.Sprintf("[64:ff9b:1::%s]:%d", bound.Addr(), bound.Port())
			b.crossesAs(r, "and in again", flow{bound.String(), other.String(), c.protocol, c.ask}, flow{from, other6, c.protocol, c.ask}, to6)
			b.crossesAs(r, "the answer out", flow{other6, from, c.protocol, c.answer}, flow{other.String(), bound.String(), c.protocol, c.answer}, to4)
			b.crossesAs(r, "the answer in", flow{other.String(), bound.String(), c.protocol, c.answer}, flow{to, client6, c.protocol, c.answer}, to6)
		})
	}
}

// RFC 4787 REQ-5 and 6, RFC 5508 REQ-2: what goes out keeps a session alive.
func TestWhatGoesOutKeepsASessionAlive(t *testing.T) {
	for _, c := range []struct {
		protocol, flags byte
		idle            time.Duration
	}{{17, 0, 5 * time.Minute}, {1, 1, time.Minute}} {
		onEachVariant(t, shared, func(b *bench, r datapathtest.Variant) {
			to := "[64:ff9b:1::8.8.8.8]:4000"
			first, _ := datapathtest.Ends(b.cross(r, "out", flow{client6, to, c.protocol, c.flags}, to4))
			now := uint32(1000)
			for range 4 {
				now += ticks(c.idle) - 1
				b.clock(now)
				if err := Of(b.Datapath).Sweep(); err != nil {
					b.T.Fatal(err)
				}
				if again, _ := datapathtest.Ends(b.cross(r, "out again", flow{client6, to, c.protocol, c.flags}, to4)); again != first {
					b.T.Fatalf("was %s, is %s", first, again)
				}
				if n := b.count("nat64_sessions"); n != 1 {
					b.T.Fatalf("%d sessions, want one", n)
				}
			}
		})
	}
}

// RFC 5382 REQ-2: both ends begin at the same time (RFC 9293 section 3.5).
func TestBothEndsOfAConnectionMayBeginIt(t *testing.T) {
	onEachVariant(t, shared, func(b *bench, r datapathtest.Variant) {
		bound, _ := datapathtest.Ends(b.cross(r, "SYN out", flow{client6, remote6, 6, 2}, to4))
		b.crossesAs(r, "SYN in", flow{remote4, bound.String(), 6, 2}, flow{remote6, client6, 6, 2}, to6)
		b.cross(r, "SYN and ACK out", flow{client6, remote6, 6, 0x12}, to4)
		b.cross(r, "SYN and ACK in", flow{remote4, bound.String(), 6, 0x12}, to6)
		words := b.sessionsOf()
		if len(words) != 1 || byte(words[0]>>32) != 3 /* established */ {
			b.T.Errorf("sessions %x, want one that is established", words)
		}
	})
}

// RFC 5382 REQ-5, RFC 6146 section 4: an idle connection lives for two hours and
// four minutes, one that is being opened or closed for four minutes.
func TestConnectionsLiveAsLongAsTheirStateSays(t *testing.T) {
	syn, ack, fin, rst := byte(2), byte(0x10), byte(0x11), byte(4)
	type step struct {
		out   bool
		flags byte
	}
	open := []step{{true, syn}, {false, 0x12}, {true, ack}}
	for name, c := range map[string]struct {
		steps   []step
		minutes time.Duration
	}{
		"being opened":             {open[:1], 4},
		"established":              {open, 124},
		"one end has closed":       {append(open[:3:3], step{true, fin}, step{false, ack}), 124},
		"both ends have closed":    {append(open[:3:3], step{true, fin}, step{false, fin}), 4},
		"reset":                    {append(open[:3:3], step{false, rst}), 4},
		"reset by a liar, goes on": {append(open[:3:3], step{false, rst}, step{true, ack}), 124},
	} {
		onEachVariant(t, shared, func(b *bench, r datapathtest.Variant) {
			bound := netip.MustParseAddrPort(pool4 + ":1")
			for _, s := range c.steps {
				if !s.out {
					b.cross(r, name, flow{remote4, bound.String(), 6, s.flags}, to6)
				} else {
					bound, _ = datapathtest.Ends(b.cross(r, name, flow{client6, remote6, 6, s.flags}, to4))
				}
			}
			b.clock(1000 + ticks(c.minutes*time.Minute) - 1)
			if err := Of(b.Datapath).Sweep(); err != nil {
				b.T.Fatal(err)
			}
			if n := b.count("nat64_sessions"); n != 1 {
				b.T.Errorf("%s: %d sessions before its time, want one", name, n)
			}
			b.clock(1000 + ticks(c.minutes*time.Minute) + 16*ticks(1e9) + 1)
			if err := Of(b.Datapath).Sweep(); err != nil {
				b.T.Fatal(err)
			}
			if n := b.count("nat64_sessions"); n != 0 {
				b.T.Errorf("%s: %d sessions after its time", name, n)
			}
		})
	}
}

// RFC 4787 REQ-12, RFC 5382 REQ-10, RFC 5508 REQ-6: an ICMP error neither ends
// a session nor keeps it alive.
func TestAnErrorChangesNoSession(t *testing.T) {
	for _, protocol := range []byte{6, 17, 1} {
		s := newSlow(t, shared)
		to, remote, flags := remote6, remote4, byte(2)
		if protocol == 1 {
			to, remote, flags = "[64:ff9b:1::8.8.8.8]:4000", "8.8.8.8:0", 1
		}
		bound := s.bind(flow{client6, to, protocol, flags})
		if protocol == 1 {
			remote = netip.AddrPortFrom(datapathtest.Addr("8.8.8.8"), bound.Port()).String()
		}
		before := s.b.sessionsOf()
		s.b.clock(1200)
		for _, code := range []byte{0, 1, 2, 3, 13} {
			out := flow{bound.String(), remote, protocol, flags}.packet().Bytes()
			p := datapathtest.Packet{From: "7.7.7.7", To: bound.Addr().String(), Protocol: 1, Payload: datapathtest.Message("7.7.7.7", bound.Addr().String(), 3, code, "00000000", out)}
			if r := s.translate(p.Bytes()); r.Outcome != to6 {
				t.Errorf("protocol %d, code %d: met %s", protocol, code, r.Outcome)
			}
		}
		if after := s.b.sessionsOf(); len(after) != 1 || after[0] != before[0] {
			t.Errorf("protocol %d: session %x became %x", protocol, before, after)
		}
	}
}

// RFC 5508 REQ-7 b: the error about a hairpinned packet comes back the same way.
func TestHairpinnedErrorsCross(t *testing.T) {
	s := newSlow(t, shared)
	const other6 = "[2001:db8:3::99]:5000"
	other := s.bind(flow{other6, remote6, 17, 0})
	to := fmt.Sprintf("[64:ff9b:1::%s]:%d", other.Addr(), other.Port())
	bound := s.bind(flow{client6, to, 17, 0})
	s.bind4(flow{bound.String(), other.String(), 17, 0})
	from := fmt.Sprintf("[64:ff9b:1::%s]:%d", bound.Addr(), bound.Port())
	far := "64:ff9b:1::" + bound.Addr().String()
	quote := flow{from, other6, 17, 0}.packet().Bytes()
	out := s.translate(datapathtest.Packet{From: "2001:db8:3::99", To: far, Protocol: 58, Payload: datapathtest.Message("2001:db8:3::99", far, 1, 4, "00000000", quote)}.Bytes())
	if out.Outcome != to4 || len(out.Out) != 1 {
		t.Fatalf("out: met %s", out.Outcome)
	}
	in := s.translate(out.Out[0])
	if in.Outcome != to6 || len(in.Out) != 1 {
		t.Fatalf("in: met %s", in.Outcome)
	}
	sent := flow{client6, to, 17, 0}.packet().Bytes()
	got := in.Out[0]
	if datapathtest.AddrOf(got[24:40]) != "2001:db8:3::77" || got[40] != 1 || got[41] != 4 || !bytes.Equal(got[48+8:48+40], sent[8:40]) || !bytes.Equal(got[88:92], sent[40:44]) {
		t.Errorf("came in as\n%x, want port unreachable about\n%x", got, sent)
	}
}

// bind4 sends a packet in along the programs' own road.
func (s *slow) bind4(f flow) {
	s.b.T.Helper()
	r := datapathtest.Variants()[3]
	s.b.TakeVariant(r)
	s.b.cross(r, "in", f, to6)
}

// RFC 5508 REQ-3: an error whose checksum is wrong, or that quotes a header
// whose checksum is wrong, is dropped.
func TestErrorsWithWrongChecksumsAreDropped(t *testing.T) {
	s := newSlow(t, shared)
	bound := s.bind(flow{client6, remote6, 17, 0})
	out := flow{bound.String(), remote4, 17, 0}.packet().Bytes()
	outer := func(quote []byte) []byte {
		return datapathtest.Packet{From: "7.7.7.7", To: bound.Addr().String(), Protocol: 1, Payload: datapathtest.Message("7.7.7.7", bound.Addr().String(), 3, 1, "00000000", quote)}.Bytes()
	}
	good := outer(out)
	if r := s.translate(good); r.Outcome != to6 {
		t.Fatalf("a good one met %s", r.Outcome)
	}
	bad := bytes.Clone(good)
	bad[22] ^= 0x55
	if r := s.translate(bad); r.Outcome != state.DropBadHeader {
		t.Errorf("a wrong checksum met %s", r.Outcome)
	}
	out = bytes.Clone(out)
	out[10] ^= 0x55
	if r := s.translate(outer(out)); r.Outcome != state.DropIpv4Checksum {
		t.Errorf("a wrong checksum of the header that it quotes met %s", r.Outcome)
	}
	back := flow{remote6, client6, 17, 0}.packet().Bytes()
	six := datapathtest.Packet{From: "2001:db8:99::1", To: "64:ff9b:1::8.8.8.8", Protocol: 58, Payload: datapathtest.Message("2001:db8:99::1", "64:ff9b:1::8.8.8.8", 1, 0, "00000000", back)}.Bytes()
	if r := s.translate(six); r.Outcome != to4 {
		t.Fatalf("a good one of IPv6 met %s", r.Outcome)
	}
	six[42] ^= 0x55
	if r := s.translate(six); r.Outcome != state.DropBadHeader {
		t.Errorf("a wrong checksum of ICMPv6 met %s", r.Outcome)
	}
}

const second6 = "[64:ff9b:2:3::8.8.8.8]:53"

// RFC 6146 section 3.5 with several prefixes: each leads to IPv4, and what comes
// back is under the one that the node has used.
func TestSeveralPrefixesOfOneTranslator(t *testing.T) {
	toml := shared + "prefixes = [\"64:ff9b:2:3::/96\", \"2001:db8:6464::/48\"]\n"
	onEachVariant(t, toml, func(b *bench, r datapathtest.Variant) {
		for i, to := range []string{remote6, second6, "[2001:db8:6464:808:8:800::]:53"} {
			client := fmt.Sprintf("[2001:db8:3::77]:%d", 4000+i)
			bound, far := datapathtest.Ends(b.cross(r, to, flow{client, to, 17, 0}, to4))
			if far.String() != remote4 {
				b.T.Errorf("%s became %s", to, far)
			}
			b.crossesAs(r, "the answer", flow{remote4, bound.String(), 17, 0}, flow{to, client, 17, 0}, to6)
			other := fmt.Sprintf("[64:ff9b:1::7.7.7.7]:%d", 7)
			b.crossesAs(r, "from elsewhere", flow{"7.7.7.7:7", bound.String(), 17, 0}, flow{other, client, 17, 0}, to6)
		}
		b.cross(r, "from the other prefix", flow{"[64:ff9b:2:3::7.7.7.7]:4000", remote6, 17, 0}, state.DropIllegalAddress)
	})
	s := newSlow(t, toml)
	bound := s.bind(flow{client6, second6, 17, 0})
	checkErrors(t, s, bound, second6, "64:ff9b:2:3::")
}

// checkErrors has errors about a session cross: that of client6 with a far end.
func checkErrors(t *testing.T, s *slow, bound netip.AddrPort, far6, prefix string) {
	t.Helper()
	out, in := flow{bound.String(), remote4, 17, 0}.packet().Bytes(), flow{client6, far6, 17, 0}.packet().Bytes()
	r := s.translate(datapathtest.Packet{From: "7.7.7.7", To: bound.Addr().String(), Protocol: 1, Payload: datapathtest.Message("7.7.7.7", bound.Addr().String(), 3, 1, "00000000", out)}.Bytes())
	want := datapathtest.Packet{From: prefix + "7.7.7.7", To: "2001:db8:3::77", Protocol: 58, Payload: datapathtest.Message(prefix+"7.7.7.7", "2001:db8:3::77", 1, 0, "00000000", in)}.Bytes()
	if r.Outcome != to6 || len(r.Out) != 1 || !bytes.Equal(r.Out[0], want) {
		t.Errorf("an error from IPv4 met %s and made\n%x, want\n%x", r.Outcome, r.Out, want)
	}
	back, quote := flow{far6, client6, 17, 0}.packet().Bytes(), flow{remote4, bound.String(), 17, 0}.packet().Bytes()
	far := netip.MustParseAddrPort(far6).Addr().String()
	r = s.translate(datapathtest.Packet{From: "2001:db8:99::1", To: far, Protocol: 58, Payload: datapathtest.Message("2001:db8:99::1", far, 1, 0, "00000000", back)}.Bytes())
	want = datapathtest.Packet{From: bound.Addr().String(), To: "8.8.8.8", Protocol: 1, Payload: datapathtest.Message(bound.Addr().String(), "8.8.8.8", 3, 1, "00000000", quote)}.Bytes()
	if r.Outcome != to4 || len(r.Out) != 1 || !bytes.Equal(sameQuote(anyID(r.Out[0])), sameQuote(anyID(want))) {
		t.Errorf("an error from IPv6 met %s and made\n%x, want\n%x", r.Outcome, r.Out, want)
	}
}

// Two translators serve the same node, with prefixes and pools of their own: its
// one port is bound twice, and errors find the right binding.
func TestTwoTranslatorsSideBySide(t *testing.T) {
	toml := strings.Replace(shared, "[nat64.main]", `[nat64.local]
mode = "stateful"
prefix = "64:ff9b:2:3::/96"
interfaces = ["lan", "wan"]
pools = [{ ipv4 = "192.0.2.9" }]
[nat64.main]`, 1)
	onEachVariant(t, toml, func(b *bench, r datapathtest.Variant) {
		for _, c := range []struct{ to, pool string }{{remote6, pool4}, {second6, "192.0.2.9"}} {
			bound, _ := datapathtest.Ends(b.cross(r, c.to, flow{client6, c.to, 17, 0}, to4))
			if bound.Addr().String() != c.pool {
				b.T.Errorf("to %s by %s, want %s", c.to, bound, c.pool)
			}
			b.crossesAs(r, "the answer", flow{remote4, bound.String(), 17, 0}, flow{c.to, client6, 17, 0}, to6)
		}
		if n := b.count("nat64_bib6"); n != 2 {
			b.T.Errorf("%d bindings, want two", n)
		}
	})
	s := newSlow(t, toml)
	s.bind(flow{client6, second6, 17, 0})
	bound := s.bind(flow{client6, remote6, 17, 0})
	checkErrors(t, s, bound, remote6, "64:ff9b:1::")
}
