package translate_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"weft/internal/state"
	"weft/internal/translate"
	"weft/internal/translate/packetgen"
)

func prefixes(list ...string) (out []netip.Prefix) {
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

func mapping(v6, v4 string) translate.Mapping {
	return translate.Mapping{IPv6: netip.MustParsePrefix(v6), IPv4: netip.MustParsePrefix(v4)}
}

// counter is an Identification generator that can be foretold.
func counter() func() uint32 {
	n := uint32(0)
	return func() uint32 { n++; return n }
}

// configs are the translators that random packets go through.
func configs() map[string]*translate.Config {
	base := func() *translate.Config {
		return &translate.Config{
			Table: translate.NewTable(netip.MustParsePrefix("2001:db8:100::/40"), []translate.Mapping{
				mapping("2001:db8:3::/120", "198.51.100.0/24"),
				mapping("2001:db8:4::42/128", "192.0.2.42/32"),
				mapping("2001:db8:5::/64", "203.0.113.64/28"),
			}),
			Translatable: prefixes("192.0.2.128/25"),
			CopyTOS:      true, DecrementTTL: true,
			MTU4: 1500, MTU6: 1500,
			ErrorSource4:   []netip.Addr{netip.MustParseAddr("203.0.113.8"), netip.MustParseAddr("203.0.113.9")},
			Router4:        netip.MustParseAddr("192.0.2.1"),
			Router6:        netip.MustParseAddr("2001:db8::1"),
			Identification: counter(),
		}
	}
	narrow := base()
	narrow.Table = translate.NewTable(netip.MustParsePrefix("64:ff9b::/96"), nil)
	narrow.MTU4, narrow.MTU6, narrow.LowestIPv6MTU = 600, 1280, 1400
	narrow.ClampMSS, narrow.ComputeUDPZero, narrow.CopyTOS = true, true, false
	bare := &translate.Config{
		Table: translate.NewTable(netip.Prefix{}, []translate.Mapping{
			mapping("2001:db8:3::/120", "198.51.100.0/24"), mapping("2001:db8:6::/48", "203.0.0.0/16"),
		}),
		GlobalOnly: true,
	}
	return map[string]*translate.Config{"usual": base(), "narrow": narrow, "bare": bare}
}

func TestRandomPacketsKeepTheInvariants(t *testing.T) {
	for name, c := range configs() {
		t.Run(name, func(t *testing.T) {
			g := packetgen.New(1, c)
			for i := range 20000 {
				pkt, kind := g.Next6()
				if _, err := check6(c, pkt); err != nil {
					t.Fatalf("packet %d (%s): %v\n%x", i, kind, err, pkt)
				}
				pkt, kind = g.Next4()
				if _, err := check4(c, pkt); err != nil {
					t.Fatalf("packet %d (%s): %v\n%x", i, kind, err, pkt)
				}
			}
		})
	}
}

func TestRandomPacketsReachEveryOutcomeOfTheTranslator(t *testing.T) {
	want := []state.Outcome{
		state.Forward6to4, state.Forward4to6, state.PassNotTranslated, state.PassLinkScope, state.DropTruncated,
		state.DropBadHeader, state.DropIpv4Checksum, state.DropSourceUnmapped, state.DropIllegalAddress,
		state.DropSourceRoute, state.DropUdpZeroChecksum, state.DropIcmpType, state.DropProtocol,
		state.DropExtensionHeaders, state.DropTooBig, state.DropHopLimit, state.DropIcmpFragment,
	}
	c := configs()["usual"]
	g := packetgen.New(7, c)
	seen, replies := map[state.Outcome]int{}, 0
	for range 20000 {
		p6, _ := g.Next6()
		p4, _ := g.Next4()
		for _, r := range []translate.Result{c.Translate6(p6), c.Translate4(p4)} {
			seen[r.Outcome]++
			if r.Reply != nil {
				replies++
			}
		}
	}
	for _, o := range want {
		if seen[o] == 0 {
			t.Errorf("no packet came to %v", o)
		}
	}
	if f := seen[state.Forward6to4] + seen[state.Forward4to6]; f < 16000 || replies == 0 {
		t.Errorf("of 40000 packets %d were forwarded and %d answered", f, replies)
	}
}

func TestTheSameSeedGivesTheSamePackets(t *testing.T) {
	c := configs()["usual"]
	a, b, other := packetgen.New(3, c), packetgen.New(3, c), packetgen.New(4, c)
	differ := false
	for range 500 {
		x, k := a.Next6()
		y, l := b.Next6()
		z, _ := other.Next6()
		if !bytes.Equal(x, y) || k != l {
			t.Fatalf("%s %x, then %s %x", k, x, l, y)
		}
		differ = differ || !bytes.Equal(x, z)
		x, _ = a.Next4()
		y, _ = b.Next4()
		if !bytes.Equal(x, y) {
			t.Fatalf("%x, then %x", x, y)
		}
	}
	if !differ {
		t.Error("another seed gives the same packets")
	}
}

func TestPacketsCutAnywhereAreNeverHalfTranslated(t *testing.T) {
	c := configs()["usual"]
	g := packetgen.New(5, c)
	for range 300 {
		p6, kind6 := g.Next6()
		for n := range len(p6) {
			if r, err := check6(c, p6[:n]); err != nil || r.Out != nil && n < 40+be16(p6[4:]) {
				t.Fatalf("%s cut to %d of %d: %v %v", kind6, n, len(p6), r.Outcome, err)
			}
		}
		p4, kind4 := g.Next4()
		for n := range len(p4) {
			if r, err := check4(c, p4[:n]); err != nil || r.Out != nil && n < be16(p4[2:]) {
				t.Fatalf("%s cut to %d of %d: %v %v", kind4, n, len(p4), r.Outcome, err)
			}
		}
	}
}

// thereAndBack translates an IPv6 packet to IPv4 and back. ok is false where
// the way back cannot lead to the same packet: fragments, errors, hairpins,
// addresses with bits that IPv4 cannot hold.
func thereAndBack(c *translate.Config, pkt []byte) (ok bool, err error) {
	in := see6(pkt)
	back := *c
	back.Translatable = prefixes("0.0.0.0/0")
	back.DecrementTTL, back.ClampMSS, back.MTU4, back.MTU6, back.LowestIPv6MTU = false, false, 0, 0, 65535
	forth := back
	forth.Translatable = c.Translatable
	there := forth.Translate6(pkt)
	if len(there.Out) != 1 || in.fragment || in.protocol == 58 && in.payload[0] < 128 {
		return false, nil
	}
	out := see4(there.Out[0])
	src, _ := c.Table.To6(out.src)
	dst, _ := c.Table.To6(out.dst)
	if src != in.src || dst != in.dst {
		return false, nil
	}
	again := back.Translate4(there.Out[0])
	if len(again.Out) != 1 {
		noChecksum := in.protocol == 17 && be16(in.payload[6:]) == 0
		hairpin := !strings.HasPrefix(again.Outcome.String(), "drop") // never so with 0/0
		if noChecksum || hairpin {
			return false, nil
		}
		return false, fmt.Errorf("the way back ends with %v", again.Outcome)
	}
	got := see6(again.Out[0])
	if got.dst != in.dst || got.protocol != in.protocol {
		return false, fmt.Errorf("from %v protocol %d to %v protocol %d", in.dst, in.protocol, got.dst, got.protocol)
	}
	a, b := bytes.Clone(in.payload), bytes.Clone(got.payload)
	for _, p := range [][]byte{a, b} { // zero and all ones are the same checksum
		switch in.protocol {
		case 6:
			p[16], p[17] = 0, 0
		case 17:
			p[6], p[7] = 0, 0
		case 58:
			p[2], p[3] = 0, 0
		}
	}
	if !bytes.Equal(a, b) {
		return false, fmt.Errorf("payload\n%x became\n%x", a, b)
	}
	return true, nil
}

func TestRandomPacketsComeBackAsTheyWere(t *testing.T) {
	c := configs()["usual"]
	g := packetgen.New(11, c)
	came := 0
	for range 10000 {
		pkt, kind := g.Next6()
		ok, err := thereAndBack(c, pkt)
		if err != nil {
			t.Fatalf("%s: %v\n%x", kind, err, pkt)
		}
		if ok {
			came++
		}
	}
	if came < 2500 {
		t.Errorf("only %d of 10000 packets made the round trip", came)
	}
}
