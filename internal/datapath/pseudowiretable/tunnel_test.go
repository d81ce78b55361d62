package pseudowiretable

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"weft/internal/datapath/datapathtest"
	"weft/internal/state"
	"weft/wire/checksum/checksumtest"
)

// What comes in pseudowires: every vector through the XDP and the TC build.
// Frames come in by lan, from 192.0.2.9 (2001:db8:9::9) to 192.0.2.1; what is
// unpacked goes to wan, which stands for the hidden end of every pseudowire.

const pseudowireNear, pseudowireFar = "192.0.2.1", "192.0.2.9"

// newPseudowires is a bench at whose lan pseudowires arrive.
func newPseudowires(t *testing.T, pseudowires ...state.Pseudowire) *bench {
	t.Helper()
	b := newBench(t, datapathtest.Usual, parts()...)
	b.SetPorts(func(p *state.IngressEntry) {
		p.Translators, p.Roles = 0, p.Roles.With(state.RoleBypass, false).With(state.RolePseudowires, p.Device == "lan")
	})
	for _, name := range []string{"pseudowire_rxs", "pseudowire_txs", "pseudowire_counts"} {
		if err := datapathtest.EmptyMap(b.Table(name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range pseudowires {
		b.pseudowire(w)
	}
	return b
}

// wire writes one, without putting a program on its hidden end.
func (b *bench) pseudowire(w state.Pseudowire) {
	b.T.Helper()
	w.Hidden, w.Peer, w.XDP = b.Links["wan"].Index, b.Links["wan"].Index, true
	_, keys, rx, err := encodePseudowire(w)
	if err != nil {
		b.T.Fatal(err)
	}
	for _, k := range keys {
		if err := b.Datapath.Write("pseudowire_rxs", k, rx, false); err != nil {
			b.T.Fatal(err)
		}
	}
	port := state.PseudowirePort{Kind: w.Kind, Local: w.Local, Port: w.LocalPort}
	if w.Kind != state.PseudowireL2TPUDP {
		port.Remote = w.Remote
	}
	if err := Of(b.Datapath).writePseudowirePort(port, false); err != nil {
		b.T.Fatal(err)
	}
	if err := Of(b.Datapath).makeCounts(uint32(w.Hidden)); err != nil {
		b.T.Fatal(err)
	}
}

// faults returns the counts by reason, and how many frames came through.
func (b *bench) faults() (map[string]uint64, uint64) {
	b.T.Helper()
	counts, err := Of(b.Datapath).PseudowireCounts()
	if err != nil {
		b.T.Fatal(err)
	}
	c := counts[b.Links["wan"].Index]
	return c.Faults, c.RxPackets
}

func plainPseudowire() state.Pseudowire {
	return state.Pseudowire{
		Kind: state.PseudowireL2TPUDP, Endpoints: state.Endpoints{Local: datapathtest.Addr(pseudowireNear), Remote: datapathtest.Addr(pseudowireFar)},
		LocalPort: 1701, RemotePort: 1702, RxID: 10, TxID: 20, RxCookie: "\x00\x00\x00\x00\x00\x00\x00\xaa", Counter: true, Sequence: true,
	}
}

// inside is the frame that is carried.
func inside() []byte {
	return append(datapathtest.Bin("020000000001 020000000002 0800"), datapathtest.Udp("10.9.0.1", "10.9.0.2", 64).Bytes()...)
}

// l2tpUDP is a packet of plainPseudowire's other end; head is what stands behind UDP.
func l2tpUDP(from string, ports string, head string, frame []byte) datapathtest.Packet {
	payload := append(append(datapathtest.Bin(ports+"00000000"), datapathtest.Bin(head)...), frame...)
	binary.BigEndian.PutUint16(payload[4:], uint16(len(payload)))
	return datapathtest.Packet{From: from, To: pseudowireNear, Protocol: protocolUDP, Flags: datapathtest.Df, Payload: payload}
}

const (
	pseudowirePorts = "06a6 06a5"
	pseudowireHead  = "00030000 0000000a 00000000000000aa"
)

func TestPseudowiresTakeWhatIsTheirsAndCountTheRest(t *testing.T) {
	good := func(number string) datapathtest.Packet {
		return l2tpUDP(pseudowireFar, pseudowirePorts, pseudowireHead+number, inside())
	}
	short := good("4000000b")
	short.Payload = short.Payload[:8+20+10]
	binary.BigEndian.PutUint16(short.Payload[4:], uint16(len(short.Payload)))
	lying := good("40000009")
	lying.Payload = bytes.Clone(lying.Payload)
	binary.BigEndian.PutUint16(lying.Payload[4:], uint16(len(lying.Payload)+1))
	tests := []struct {
		name    string
		packet  datapathtest.Packet
		outcome string // empty: left to the kernel, uncounted
		fault   string
	}{
		{"a frame comes through", good("40000005"), "forward-pseudowire-decap", ""},
		{"the same number again is behind", good("40000005"), "drop-pseudowire-sequence", "sequence"},
		{"one that was skipped over comes too late", good("40000003"), "drop-pseudowire-sequence", "sequence"},
		{"the next number comes through, also with a gap", good("40000008"), "forward-pseudowire-decap", ""},
		{"no S bit: nothing is said of the order", good("00000000"), "forward-pseudowire-decap", ""},
		{"another cookie", l2tpUDP(pseudowireFar, pseudowirePorts, "00030000 0000000a 00000000000000ab 40000009", inside()), "drop-pseudowire-cookie", "cookie"},
		{"another session", l2tpUDP(pseudowireFar, pseudowirePorts, "00030000 0000000b 00000000000000aa 40000009", inside()), "drop-pseudowire-unknown", ""},
		{"another source address", l2tpUDP("192.0.2.10", pseudowirePorts, pseudowireHead+"40000009", inside()), "drop-pseudowire-source", "source"},
		{"another source port", l2tpUDP(pseudowireFar, "06a7 06a5", pseudowireHead+"40000009", inside()), "drop-pseudowire-source", "source"},
		{"another port here is not weft's", l2tpUDP(pseudowireFar, "06a6 06a6", pseudowireHead+"40000009", inside()), "", ""},
		{"a control message", l2tpUDP(pseudowireFar, pseudowirePorts, "c8030014 00000000 00000000 00000000", inside()), "", ""},
		{"L2TPv2 data", l2tpUDP(pseudowireFar, pseudowirePorts, "00020000 00000000 00000000 00000000", inside()), "", ""},
		{"a version that is none", l2tpUDP(pseudowireFar, pseudowirePorts, "00070000 0000000a 00000000 00000000", inside()), "drop-pseudowire-header", ""},
		{"reserved bits set", l2tpUDP(pseudowireFar, pseudowirePorts, "00030001 0000000a 00000000000000aa 4000000a", inside()), "forward-pseudowire-decap", ""},
		{"shorter than a frame", short, "drop-pseudowire-truncated", "truncated"},
		{"a UDP length that lies", lying, "drop-pseudowire-truncated", "truncated"},
	}
	for _, build := range datapathtest.Builds {
		t.Run(build, func(t *testing.T) {
			b := newPseudowires(t, plainPseudowire())
			for _, test := range tests {
				before, through := b.faults()
				res := b.Run(build, "lan", b.Frame("lan", test.packet.Bytes()))[0]
				if res.Err != nil {
					t.Fatalf("%s: %v", test.name, res.Err)
				}
				if n := res.Counted[build+" "+test.outcome]; test.outcome != "" && n != 1 {
					t.Errorf("%s: counted %v, want %s", test.name, res.Counted, test.outcome)
				}
				after, now := b.faults()
				if test.fault != "" && after[test.fault] != before[test.fault]+1 {
					t.Errorf("%s: faults %v after %v, want one more of %s", test.name, after, before, test.fault)
				}
				if delivered := now > through; delivered != (test.outcome == "forward-pseudowire-decap") {
					t.Errorf("%s: delivered %v", test.name, delivered)
				}
				if test.outcome == "forward-pseudowire-decap" && !bytes.Equal(res.Frame, inside()) {
					t.Errorf("%s: gives\n%x, want\n%x", test.name, res.Frame, inside())
				}
				if test.outcome == "" && !bytes.Equal(res.Frame, b.Frame("lan", test.packet.Bytes())) {
					t.Errorf("%s: was changed", test.name)
				}
			}
		})
	}
}

func TestPseudowiresOverIPAndGRE(t *testing.T) {
	ip := plainPseudowire()
	ip.Kind, ip.LocalPort, ip.RemotePort, ip.RxCookie, ip.Counter, ip.Sequence = state.PseudowireL2TPIP, 0, 0, "\x00\x00\x00\xaa", false, false
	gre := ip
	gre.Kind, gre.RxID, gre.RxCookie = state.PseudowireGRE, 0, ""
	keyed := gre
	keyed.Kind, keyed.RxID, keyed.Sequence = state.PseudowireGREKey, 7, true
	for _, build := range datapathtest.Builds {
		t.Run(build, func(t *testing.T) {
			b := newPseudowires(t, ip, gre, keyed)
			for _, test := range []struct {
				name, head string
				protocol   byte
				outcome    string
			}{
				{"L2TPv3 over IP", "0000000a 000000aa", protocolL2TP, "forward-pseudowire-decap"},
				{"with another cookie", "0000000a 000000ab", protocolL2TP, "drop-pseudowire-cookie"},
				{"of another session", "0000000b 000000aa", protocolL2TP, "drop-pseudowire-unknown"},
				{"a control message", "00000000 c8030014", protocolL2TP, ""},
				{"GRE", "00006558", protocolGRE, "forward-pseudowire-decap"},
				{"GRE with a key", "30006558 00000007 00000001", protocolGRE, "forward-pseudowire-decap"},
				{"with its number once more", "30006558 00000007 00000001", protocolGRE, "drop-pseudowire-sequence"},
				{"without a number", "20006558 00000007", protocolGRE, "drop-pseudowire-header"},
				{"with an unknown key", "30006558 00000008 00000002", protocolGRE, "drop-pseudowire-unknown"},
				{"GRE with a checksum that was not agreed", "80006558 00000000", protocolGRE, "drop-pseudowire-header"},
				{"GRE with IPv4 inside", "00000800", protocolGRE, ""},
				{"GRE with routing, of RFC 1701", "40006558 00000000", protocolGRE, ""},
				{"PPTP's GRE", "00016558", protocolGRE, ""},
			} {
				_, through := b.faults()
				p := datapathtest.Packet{From: pseudowireFar, To: pseudowireNear, Protocol: test.protocol, Flags: datapathtest.Df, Payload: append(datapathtest.Bin(test.head), inside()...)}
				res := b.Run(build, "lan", b.Frame("lan", p.Bytes()))[0]
				if test.outcome != "" && res.Counted[build+" "+test.outcome] != 1 {
					t.Errorf("%s: counted %v, want %s", test.name, res.Counted, test.outcome)
				}
				_, now := b.faults()
				if delivered := now > through; delivered != (test.outcome == "forward-pseudowire-decap") {
					t.Errorf("%s: delivered %v", test.name, delivered)
				}
			}
		})
	}
}

func TestAPacketCutAnywhereIsNotDelivered(t *testing.T) {
	whole := l2tpUDP(pseudowireFar, pseudowirePorts, pseudowireHead+"00000000", inside()).Bytes()
	for _, build := range datapathtest.Builds {
		b := newPseudowires(t, plainPseudowire())
		for n := 20; n < len(whole); n++ {
			res := b.Run(build, "lan", b.Frame("lan", whole[:n]))[0]
			if res.Err != nil {
				continue // shorter than BPF_PROG_RUN takes
			}
			if res.Counted[build+" forward-pseudowire-decap"] != 0 {
				t.Errorf("%s: %d of %d bytes come through", build, n, len(whole))
			}
		}
		if _, through := b.faults(); through != 0 {
			t.Errorf("%s: %d were delivered", build, through)
		}
	}
}

// What random bytes in the headers do: only a packet that still is the
// pseudowire's may come through, and every one of a pseudowire is counted.
func TestRandomBytesInTunnelHeaders(t *testing.T) {
	seed := uint64(31)
	random := rand.New(rand.NewPCG(seed, seed))
	whole := l2tpUDP(pseudowireFar, pseudowirePorts, pseudowireHead+"00000000", inside()).Bytes()
	for _, build := range datapathtest.Builds {
		b := newPseudowires(t, plainPseudowire())
		var delivered uint64
		for i := range 3000 {
			pkt := bytes.Clone(whole)
			for range 1 + random.IntN(3) {
				pkt[random.IntN(20+28)] = byte(random.Uint32())
			}
			cut := len(pkt) - random.IntN(40)*random.IntN(2)
			pkt = healedIf(random.IntN(2) == 0, pkt)[:cut]
			res := b.Run(build, "lan", b.Frame("lan", pkt))[0]
			if res.Err != nil {
				continue
			}
			if res.Counted[build+" forward-pseudowire-decap"] != 0 {
				delivered++
				if !bytes.Equal(pkt[12:24], whole[12:24]) || !bytes.Equal(pkt[28:30], whole[28:30]) || !bytes.Equal(pkt[32:44], whole[32:44]) || cut != len(whole) {
					t.Errorf("%s: seed %d, packet %d comes through: %x", build, seed, i, pkt)
				}
			}
		}
		if _, through := b.faults(); through != delivered {
			t.Errorf("%s: %d came through, %d are counted", build, delivered, through)
		}
	}
}

func healedIf(heal bool, pkt []byte) []byte {
	if heal && pkt[0]&15 == 5 {
		return datapathtest.Healed(pkt)
	}
	return pkt
}

func TestCongestionUnderWayIsTheFrames(t *testing.T) {
	able := inside()
	able[15] = able[15]&^3 | 2 // ECT(0)
	able = append(able[:14], datapathtest.Healed(bytes.Clone(able[14:]))...)
	for _, build := range datapathtest.Builds {
		b := newPseudowires(t, plainPseudowire())
		for _, test := range []struct {
			name, outcome string
			frame         []byte
		}{
			{"a frame that can tell", "forward-pseudowire-decap", able},
			{"one that cannot", "drop-pseudowire-ecn", inside()},
		} {
			p := l2tpUDP(pseudowireFar, pseudowirePorts, pseudowireHead+"00000000", test.frame)
			p.Tos = 3
			res := b.Run(build, "lan", b.Frame("lan", p.Bytes()))[0]
			if res.Counted[build+" "+test.outcome] != 1 {
				t.Errorf("%s: %s: counted %v", build, test.name, res.Counted)
			}
			if test.outcome == "forward-pseudowire-decap" && (res.Frame[15]&3 != 3 || checksumtest.Of(res.Frame[14:34]) != 0) {
				t.Errorf("%s: the frame's TOS is %#x, the header's checksum %#x", build, res.Frame[15], checksumtest.Of(res.Frame[14:34]))
			}
		}
	}
}

func TestPseudowiresComeBackFromTheMaps(t *testing.T) {
	for i, w := range []state.Pseudowire{
		plainPseudowire(),
		{Kind: state.PseudowireL2TPIP, Endpoints: state.Endpoints{Local: datapathtest.Addr("2001:db8::1"), Remote: datapathtest.Addr("2001:db8::2")}, RxID: 1, TxID: 0xfffffffe, TxCookie: "abcd", Counter: true, Pinned: true, TTL: 0, TOS: -1, DF: true, Answer: true, MTU: 1300},
		{Kind: state.PseudowireGREKey, Endpoints: state.Endpoints{Local: datapathtest.Addr(pseudowireNear), Remote: datapathtest.Addr(pseudowireFar)}, RxID: 7, TxID: 9, Checksum: true, Sequence: true, TTL: 255, TOS: 0x10},
		{Kind: state.PseudowireGRE, Endpoints: state.Endpoints{Local: datapathtest.Addr(pseudowireNear), Remote: datapathtest.Addr(pseudowireFar)}, TTL: 1},
	} {
		w.Hidden, w.Peer = 1000+i, 2000+i
		w.Device = fmt.Sprintf("#%d", w.Peer)
		if w.TTL == 0 && w.TOS != -1 {
			w.TTL = 64
		}
		tx, keys, rx, err := encodePseudowire(w)
		if err != nil {
			t.Fatal(err)
		}
		if got := decodePseudowire(w.Hidden, tx, rx); got != w {
			t.Errorf("wrote\n%s\nread\n%s", w, got)
		}
		if keys[0] != keyOf(tx) {
			t.Errorf("%s: another key", w)
		}
	}
}
