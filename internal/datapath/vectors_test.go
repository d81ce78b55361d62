package datapath

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"weft/internal/state"
)

// usual is the router that most vectors go through.
const usual = `
[interface.lan]
addresses = ["2001:db8:1::1/64"]
bypass = true
[interface.wan]
addresses = ["198.51.100.1/24"]
bypass = true
[nat64.main]
mode = "stateless"
prefix = "64:ff9b:1::/96"
interfaces = ["lan", "wan"]
mappings = [
  { ipv6 = "2001:db8:1::2", ipv4 = "198.51.100.2" },
  { ipv6 = "2001:db8:3::/120", ipv4 = "192.0.2.0/24" },
  { ipv6 = "2001:db8:5::/64", ipv4 = "203.0.113.64/28" },
  { ipv6 = "2001:db8:9::7", ipv4 = "203.0.113.200", node = "ipv4" },
]
`

const (
	node6, node4 = "2001:db8:3::7", "192.0.2.7"
	far6, far4   = "64:ff9b:1::8.8.8.8", "8.8.8.8"
)

// vector is one packet and what must become of it.
type vector struct {
	name    string
	in      []byte
	outcome state.Outcome            // of the translation; a road may make more of it (road.meets)
	out     []byte                   // the packet that leaves; nil if none does
	except  map[string]state.Outcome // by name of the road
}

func runVectors(t *testing.T, toml string, vectors []vector) {
	t.Helper()
	b := newBench(t, toml)
	t.Run("reference", func(t *testing.T) {
		for _, v := range vectors {
			if err := b.referenceAgrees(v); err != nil {
				t.Errorf("%s: %v", v.name, err)
			}
		}
	})
	for _, r := range roads() {
		t.Run(strings.ReplaceAll(r.name, " ", "-"), func(t *testing.T) {
			b.takeRoad(r)
			for _, v := range vectors {
				ipv4 := side(v.in) == "wan"
				if ipv4 && !r.takes4 {
					continue
				}
				frame := b.frame(side(v.in), v.in)
				res := b.run(r.program, r.from(v.in), frame)[0]
				want, out := r.meets(v.outcome, ipv4), v.out
				if o, ok := v.except[r.name]; ok {
					want = o
				}
				if err := r.check(b, frame, res, want, out); err != nil {
					t.Errorf("%s: %v", v.name, err)
				}
			}
		})
	}
}

// referenceAgrees gives a vector to the Go reference, which must say the same;
// of what goes to the slow path it says what becomes of it in the end.
func (b *bench) referenceAgrees(v vector) error {
	c := *b.reference
	c.MTU6, c.Identification = 0, nil
	result := c.Translate6
	if isIPv4(v.in) {
		result = c.Translate4
	}
	got := result(v.in)
	if v.outcome == state.SlowErrorDue && got.Reply == nil {
		return fmt.Errorf("met %s and sends no error", got.Outcome)
	}
	if v.outcome.Verdict() == state.Slow {
		return nil
	}
	if got.Outcome != v.outcome {
		return fmt.Errorf("met %s, want %s", got.Outcome, v.outcome)
	}
	if v.out == nil && got.Out == nil || len(got.Out) == 1 && bytes.Equal(anyID(got.Out[0]), anyID(v.out)) {
		return nil
	}
	return fmt.Errorf("made %x, want %x", got.Out, v.out)
}

// anyID gives an IPv4 packet with identification zero.
func anyID(ip []byte) []byte {
	if !isIPv4(ip) {
		return ip
	}
	return healed(with(ip, 4, 0, 0))
}

const (
	to4 = state.Forward6to4
	to6 = state.Forward4to6
)

func TestWhatCrossesCrossesWhole(t *testing.T) {
	noChecksum := udp(far6, node6, 5)
	noChecksum.payload = with(noChecksum.payload, 6, 0, 0)
	zero4, zero6 := udp(far4, node4, 5), udp(node6, far6, 5)
	zero4.payload, zero6.payload = with(zero4.payload, 6, 0, 0), with(zero6.payload, 6, 0, 0)
	zero64 := udp(node4, far4, 5)
	zero64.payload = with(zero64.payload, 6, 0, 0)
	wrong6, wrong4 := wrongUDP(t)
	padded6, padded4 := udp(node6, far6, 3), udp(far4, node4, 3)
	padded6.padding, padded4.padding = 9, 15
	free, bound := udp(far4, node4, 9), udp(far4, node4, 9)
	free.flags, bound.flags = 0, df
	protocol6 := packet{from: node6, to: far6, protocol: 132, payload: counting(33)}
	protocol4 := packet{from: node4, to: far4, protocol: 132, payload: counting(33)}
	big6, big4 := udp(node6, far6, 1280-48), udp(node4, far4, 1280-48)
	bigger6, bigger4 := udp(node6, far6, 1281-48), udp(node4, far4, 1281-48)
	bigger4.flags = df
	large6, large4 := udp(node6, far6, 1500-48), udp(node4, far4, 1500-48)
	large4.flags = df
	wide6, wide4 := udp(far6, node6, 1480-28), udp(far4, node4, 1480-28)
	wide4.flags = df
	runVectors(t, usual, []vector{
		{"a UDP datagram becomes IPv4", udp(node6, far6, 9).bytes(), to4, udp(node4, far4, 9).bytes(), nil},
		{"a UDP datagram becomes IPv6", udp(far4, node4, 9).bytes(), to6, udp(far6, node6, 9).bytes(), nil},
		{"a datagram without data becomes IPv4", udp(node6, far6, 0).bytes(), to4, udp(node4, far4, 0).bytes(), nil},
		{"a datagram without data becomes IPv6", udp(far4, node4, 0).bytes(), to6, udp(far6, node6, 0).bytes(), nil},
		{"a TCP segment becomes IPv4", tcp(node6, far6, 0x18, nil, 100).bytes(), to4, tcp(node4, far4, 0x18, nil, 100).bytes(), nil},
		{"a TCP segment becomes IPv6", tcp(far4, node4, 0x18, nil, 101).bytes(), to6, tcp(far6, node6, 0x18, nil, 101).bytes(), nil},
		{"a SYN keeps its MSS where nothing is clamped", tcp(node6, far6, 2, bin("020405a0"), 0).bytes(), to4, tcp(node4, far4, 2, bin("020405a0"), 0).bytes(), nil},
		{"an echo request becomes ICMPv4", echo(node6, far6, false, 56).bytes(), to4, echo(node4, far4, false, 56).bytes(), nil},
		{"an echo reply becomes ICMPv4", echo(node6, far6, true, 57).bytes(), to4, echo(node4, far4, true, 57).bytes(), nil},
		{"an echo request becomes ICMPv6", echo(far4, node4, false, 56).bytes(), to6, echo(far6, node6, false, 56).bytes(), nil},
		{"an echo reply becomes ICMPv6", echo(far4, node4, true, 1).bytes(), to6, echo(far6, node6, true, 1).bytes(), nil},
		{"a transport that nobody knows becomes IPv4 as it is", protocol6.bytes(), to4, protocol4.bytes(), nil},
		{"UDP without checksum stays without towards IPv4", zero6.bytes(), to4, zero64.bytes(), nil},
		{"a wrong checksum stays wrong by as much", wrong6, to4, wrong4, nil},
		{"link padding of IPv6 stays behind", padded6.bytes(), to4, udp(node4, far4, 3).bytes(), nil},
		{"link padding of IPv4 stays behind", padded4.bytes(), to6, udp(far6, node6, 3).bytes(), nil},
		{"small IPv4 needs no DF", free.bytes(), to6, udp(far6, node6, 9).bytes(), nil},
		{"DF on a small packet makes no difference", bound.bytes(), to6, udp(far6, node6, 9).bytes(), nil},
		{"1280 bytes of IPv6 may be fragmented on", big6.bytes(), to4, big4.bytes(), nil},
		{"1281 bytes of IPv6 may not", bigger6.bytes(), to4, bigger4.bytes(), nil},
		{"1500 bytes of IPv6 fit", large6.bytes(), to4, large4.bytes(), nil},
		{"1480 bytes of IPv4 with DF fit", wide4.bytes(), to6, wide6.bytes(), nil},
		{"an unequal mapping takes the suffix right behind its prefix", udp("2001:db8:5:0:7000::", far6, 4).bytes(), to4, udp("203.0.113.71", far4, 4).bytes(), nil},
		{"an unequal mapping puts it back there", udp(far4, "203.0.113.71", 4).bytes(), to6, udp(far6, "2001:db8:5:0:7000::", 4).bytes(), nil},
		{"the surplus bits of an unequal mapping are discarded", udp("2001:db8:5:0:7fff:1:2:3", far6, 4).bytes(), to4, udp("203.0.113.71", far4, 4).bytes(), nil},
		{"an IPv4 node is reached by its mapping", udp(node6, "2001:db8:9::7", 4).bytes(), to4, udp(node4, "203.0.113.200", 4).bytes(), nil},
		{"an IPv4 node is seen by its mapping", udp("203.0.113.200", node4, 4).bytes(), to6, udp("2001:db8:9::7", node6, 4).bytes(), nil},
		{"between two mapped nodes the far one appears by the prefix", udp("192.0.2.9", node4, 3).bytes(), to6, udp("64:ff9b:1::192.0.2.9", node6, 3).bytes(), nil},
	})
}

// wrongUDP gives a datagram with a broken checksum, and what it must become:
// the data changed and the checksum did not, on both sides.
func wrongUDP(t *testing.T) (in, out []byte) {
	t.Helper()
	p6, p4 := udp(node6, far6, 8), udp(node4, far4, 8)
	p6.payload, p4.payload = with(p6.payload, 12, 0xaa), with(p4.payload, 12, 0xaa)
	return p6.bytes(), p4.bytes()
}

func TestAChecksumOfZeroIsSentAsAllOnes(t *testing.T) {
	// the data completes the sum, so that the checksum comes out as zero
	data := func(from, to string) []byte {
		s := udpSegment(from, to, []byte{0, 0})
		return s[6:8]
	}
	d4, d6 := data(node4, far4), data(far6, node6)
	ones4 := packet{from: node4, to: far4, protocol: 17, payload: udpSegment(node4, far4, d4)}
	ones6 := packet{from: far6, to: node6, protocol: 17, payload: udpSegment(far6, node6, d6)}
	for _, p := range []packet{ones4, ones6} {
		if p.payload[6] != 0xff || p.payload[7] != 0xff {
			t.Fatalf("the checksum is %x: this is no such packet", p.payload[6:8])
		}
	}
	runVectors(t, usual, []vector{
		{"towards IPv4", packet{from: node6, to: far6, protocol: 17, payload: udpSegment(node6, far6, d4)}.bytes(), to4, ones4.bytes(), nil},
		{"towards IPv6", packet{from: far4, to: node4, protocol: 17, payload: udpSegment(far4, node4, d6)}.bytes(), to6, ones6.bytes(), nil},
	})
}

func TestHeadersBetweenAreLeftBehind(t *testing.T) {
	behind := func(p packet, options string) []byte {
		p.options = bin(options)
		if addr(p.from).Is6() {
			p.protocol = 60
		}
		return p.bytes()
	}
	u6, u4 := udp(node6, far6, 9), udp(node4, far4, 9)
	v4, v6 := udp(far4, node4, 9), udp(far6, node6, 9)
	eight := strings.Repeat("3c00010400000000", 7) + "1100010400000000"
	hop := u6
	hop.protocol, hop.options = 0, bin("3c00010400000000 1100010400000000")
	used := u6
	used.protocol, used.options = 43, bin("1102000000000000 20010db8000000000000000000000001")
	runVectors(t, usual, []vector{
		{"hop-by-hop options and destination options", hop.bytes(), to4, u4.bytes(), nil},
		{"a routing header that is used up", used.bytes(), to4, u4.bytes(), nil},
		{"an options header of 24 bytes", behind(u6, "1102010400000000 0000000000000000 0000000000000000"), to4, u4.bytes(), nil},
		{"eight extension headers", behind(u6, eight), to4, u4.bytes(), nil},
		{"IPv4 options, a source route that is used up among them", behind(v4, "01 830708c0000201 00 ffffff"), to6, v6.bytes(), nil},
		{"forty bytes of record route", behind(v4, "0727 04"+strings.Repeat("00", 36)+"00"), to6, v6.bytes(), nil},
	})
}

func TestWhatIsHardGoesToTheSlowPathUntouched(t *testing.T) {
	u6, u4 := udp(node6, far6, 24), udp(far4, node4, 24)
	first6, routed, unknown := u6, u6, udp("2001:db8:77::1", far6, 24)
	first6.protocol, first6.options = 44, bin("11000001 aaaa1234")
	routed.protocol, routed.options = 43, bin("1102000100000000 20010db8000000000000000000000001")
	first4, later4, long4 := u4, u4, udp(far4, node4, 1261-28)
	first4.flags, later4.flags = 0x2000, 0x0003
	strict, loose := u4, u4
	strict.options, loose.options = bin("890704c0000201 00"), bin("01 830704c0000201 00000000")
	error6 := packet{from: node6, to: far6, protocol: 58, payload: message(node6, far6, 1, 4, "00000000", udp(far6, node6, 8).bytes())}
	stranger6 := packet{from: "2001:db8:77::1", to: far6, protocol: 58, payload: message("2001:db8:77::1", far6, 3, 0, "00000000", udp(far6, node6, 8).bytes())}
	error4 := packet{from: far4, to: node4, protocol: 1, payload: message(far4, node4, 3, 3, "00000000", udp(node4, far4, 8).bytes())}
	illegal4 := packet{from: "127.0.0.1", to: node4, protocol: 1, payload: message("127.0.0.1", node4, 11, 0, "00000000", udp(node4, far4, 8).bytes())}
	before := map[string]state.Outcome{"tc": state.SlowBeforeStack}
	runVectors(t, usual, []vector{
		{"a fragment of IPv6", first6.bytes(), state.SlowFragment, nil, nil},
		{"a routing header with segments left", routed.bytes(), state.SlowErrorDue, nil, nil},
		{"a source without IPv4 address", unknown.bytes(), state.SlowErrorDue, nil, nil},
		{"an ICMPv6 error", error6.bytes(), state.SlowIcmpError, nil, nil},
		{"an ICMPv6 error of a router without IPv4 address", stranger6.bytes(), state.SlowIcmpError, nil, nil},
		{"a first fragment of IPv4", first4.bytes(), state.SlowFragment, nil, nil},
		{"a later fragment of IPv4", later4.bytes(), state.SlowFragment, nil, nil},
		{"more than 1280 bytes that may be fragmented", long4.bytes(), state.SlowFragNeeded, nil, nil},
		{"a strict source route", strict.bytes(), state.SlowErrorDue, nil, before},
		{"a loose source route behind a no-op", loose.bytes(), state.SlowErrorDue, nil, before},
		{"an ICMPv4 error", error4.bytes(), state.SlowIcmpError, nil, nil},
		{"an ICMPv4 error of a router with an illegal address", illegal4.bytes(), state.SlowIcmpError, nil, before},
	})
}
