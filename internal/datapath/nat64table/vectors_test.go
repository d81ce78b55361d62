package nat64table

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"weft/internal/datapath/datapathtest"
	"weft/internal/state"
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
	b := newBench(t, toml, parts()...)
	t.Run("reference", func(t *testing.T) {
		for _, v := range vectors {
			if err := b.referenceAgrees(v); err != nil {
				t.Errorf("%s: %v", v.name, err)
			}
		}
	})
	for _, r := range datapathtest.Variants() {
		t.Run(strings.ReplaceAll(r.Name, " ", "-"), func(t *testing.T) {
			b.TakeVariant(r)
			for _, v := range vectors {
				ipv4 := datapathtest.Side(v.in) == "wan"
				if ipv4 && !r.Takes4 {
					continue
				}
				frame := b.Frame(datapathtest.Side(v.in), v.in)
				res := b.Run(r.Program, r.From(v.in), frame)[0]
				want, out := r.Meets(v.outcome, ipv4), v.out
				if o, ok := v.except[r.Name]; ok {
					want = o
				}
				if err := r.Check(b.Bench, frame, res, want, out); err != nil {
					t.Errorf("%s: %v", v.name, err)
				}
			}
		})
	}
}

// referenceAgrees gives a vector to the Go reference, which must say the same;
// of what goes to the slow path it says what becomes of it in the end.
func (b *bench) referenceAgrees(v vector) error {
	c := *b.Reference
	c.MTU6, c.Identification = 0, nil
	result := c.Translate6
	if datapathtest.IsIPv4(v.in) {
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

// anyID returns an IPv4 packet with identification zero.
func anyID(ip []byte) []byte {
	if !datapathtest.IsIPv4(ip) {
		return ip
	}
	return datapathtest.Healed(datapathtest.With(ip, 4, 0, 0))
}

const (
	to4 = state.Forward6to4
	to6 = state.Forward4to6
)

func TestWhatCrossesCrossesWhole(t *testing.T) {
	noChecksum := datapathtest.Udp(datapathtest.Far6, datapathtest.Node6, 5)
	noChecksum.Payload = datapathtest.With(noChecksum.Payload, 6, 0, 0)
	zero4, zero6 := datapathtest.Udp(datapathtest.Far4, datapathtest.Node4, 5), datapathtest.Udp(datapathtest.Node6, datapathtest.Far6, 5)
	zero4.Payload, zero6.Payload = datapathtest.With(zero4.Payload, 6, 0, 0), datapathtest.With(zero6.Payload, 6, 0, 0)
	zero64 := datapathtest.Udp(datapathtest.Node4, datapathtest.Far4, 5)
	zero64.Payload = datapathtest.With(zero64.Payload, 6, 0, 0)
	wrong6, wrong4 := wrongUDP(t)
	padded6, padded4 := datapathtest.Udp(datapathtest.Node6, datapathtest.Far6, 3), datapathtest.Udp(datapathtest.Far4, datapathtest.Node4, 3)
	padded6.Padding, padded4.Padding = 9, 15
	free, bound := datapathtest.Udp(datapathtest.Far4, datapathtest.Node4, 9), datapathtest.Udp(datapathtest.Far4, datapathtest.Node4, 9)
	free.Flags, bound.Flags = 0, datapathtest.Df
	protocol6 := datapathtest.Packet{From: datapathtest.Node6, To: datapathtest.Far6, Protocol: 132, Payload: datapathtest.Counting(33)}
	protocol4 := datapathtest.Packet{From: datapathtest.Node4, To: datapathtest.Far4, Protocol: 132, Payload: datapathtest.Counting(33)}
	big6, big4 := datapathtest.Udp(datapathtest.Node6, datapathtest.Far6, 1280-48), datapathtest.Udp(datapathtest.Node4, datapathtest.Far4, 1280-48)
	bigger6, bigger4 := datapathtest.Udp(datapathtest.Node6, datapathtest.Far6, 1281-48), datapathtest.Udp(datapathtest.Node4, datapathtest.Far4, 1281-48)
	bigger4.Flags = datapathtest.Df
	large6, large4 := datapathtest.Udp(datapathtest.Node6, datapathtest.Far6, 1500-48), datapathtest.Udp(datapathtest.Node4, datapathtest.Far4, 1500-48)
	large4.Flags = datapathtest.Df
	wide6, wide4 := datapathtest.Udp(datapathtest.Far6, datapathtest.Node6, 1480-28), datapathtest.Udp(datapathtest.Far4, datapathtest.Node4, 1480-28)
	wide4.Flags = datapathtest.Df
	runVectors(t, datapathtest.Usual, []vector{
		{"a UDP datagram becomes IPv4", datapathtest.Udp(datapathtest.Node6, datapathtest.Far6, 9).Bytes(), to4, datapathtest.Udp(datapathtest.Node4, datapathtest.Far4, 9).Bytes(), nil},
		{"a UDP datagram becomes IPv6", datapathtest.Udp(datapathtest.Far4, datapathtest.Node4, 9).Bytes(), to6, datapathtest.Udp(datapathtest.Far6, datapathtest.Node6, 9).Bytes(), nil},
		{"a datagram without data becomes IPv4", datapathtest.Udp(datapathtest.Node6, datapathtest.Far6, 0).Bytes(), to4, datapathtest.Udp(datapathtest.Node4, datapathtest.Far4, 0).Bytes(), nil},
		{"a datagram without data becomes IPv6", datapathtest.Udp(datapathtest.Far4, datapathtest.Node4, 0).Bytes(), to6, datapathtest.Udp(datapathtest.Far6, datapathtest.Node6, 0).Bytes(), nil},
		{"a TCP segment becomes IPv4", datapathtest.Tcp(datapathtest.Node6, datapathtest.Far6, 0x18, nil, 100).Bytes(), to4, datapathtest.Tcp(datapathtest.Node4, datapathtest.Far4, 0x18, nil, 100).Bytes(), nil},
		{"a TCP segment becomes IPv6", datapathtest.Tcp(datapathtest.Far4, datapathtest.Node4, 0x18, nil, 101).Bytes(), to6, datapathtest.Tcp(datapathtest.Far6, datapathtest.Node6, 0x18, nil, 101).Bytes(), nil},
		{"a SYN keeps its MSS where nothing is clamped", datapathtest.Tcp(datapathtest.Node6, datapathtest.Far6, 2, datapathtest.Bin("020405a0"), 0).Bytes(), to4, datapathtest.Tcp(datapathtest.Node4, datapathtest.Far4, 2, datapathtest.Bin("020405a0"), 0).Bytes(), nil},
		{"an echo request becomes ICMPv4", datapathtest.Echo(datapathtest.Node6, datapathtest.Far6, false, 56).Bytes(), to4, datapathtest.Echo(datapathtest.Node4, datapathtest.Far4, false, 56).Bytes(), nil},
		{"an echo reply becomes ICMPv4", datapathtest.Echo(datapathtest.Node6, datapathtest.Far6, true, 57).Bytes(), to4, datapathtest.Echo(datapathtest.Node4, datapathtest.Far4, true, 57).Bytes(), nil},
		{"an echo request becomes ICMPv6", datapathtest.Echo(datapathtest.Far4, datapathtest.Node4, false, 56).Bytes(), to6, datapathtest.Echo(datapathtest.Far6, datapathtest.Node6, false, 56).Bytes(), nil},
		{"an echo reply becomes ICMPv6", datapathtest.Echo(datapathtest.Far4, datapathtest.Node4, true, 1).Bytes(), to6, datapathtest.Echo(datapathtest.Far6, datapathtest.Node6, true, 1).Bytes(), nil},
		{"an unknown transport becomes IPv4 as it is", protocol6.Bytes(), to4, protocol4.Bytes(), nil},
		{"UDP without checksum stays without towards IPv4", zero6.Bytes(), to4, zero64.Bytes(), nil},
		{"a wrong checksum stays wrong by as much", wrong6, to4, wrong4, nil},
		{"link padding of IPv6 stays behind", padded6.Bytes(), to4, datapathtest.Udp(datapathtest.Node4, datapathtest.Far4, 3).Bytes(), nil},
		{"link padding of IPv4 stays behind", padded4.Bytes(), to6, datapathtest.Udp(datapathtest.Far6, datapathtest.Node6, 3).Bytes(), nil},
		{"small IPv4 needs no DF", free.Bytes(), to6, datapathtest.Udp(datapathtest.Far6, datapathtest.Node6, 9).Bytes(), nil},
		{"DF on a small packet makes no difference", bound.Bytes(), to6, datapathtest.Udp(datapathtest.Far6, datapathtest.Node6, 9).Bytes(), nil},
		{"1280 bytes of IPv6 may be fragmented on", big6.Bytes(), to4, big4.Bytes(), nil},
		{"1281 bytes of IPv6 may not", bigger6.Bytes(), to4, bigger4.Bytes(), nil},
		{"1500 bytes of IPv6 fit", large6.Bytes(), to4, large4.Bytes(), nil},
		{"1480 bytes of IPv4 with DF fit", wide4.Bytes(), to6, wide6.Bytes(), nil},
		{"an unequal mapping takes the suffix right behind its prefix", datapathtest.Udp("2001:db8:5:0:7000::", datapathtest.Far6, 4).Bytes(), to4, datapathtest.Udp("203.0.113.71", datapathtest.Far4, 4).Bytes(), nil},
		{"an unequal mapping puts it back there", datapathtest.Udp(datapathtest.Far4, "203.0.113.71", 4).Bytes(), to6, datapathtest.Udp(datapathtest.Far6, "2001:db8:5:0:7000::", 4).Bytes(), nil},
		{"the surplus bits of an unequal mapping are discarded", datapathtest.Udp("2001:db8:5:0:7fff:1:2:3", datapathtest.Far6, 4).Bytes(), to4, datapathtest.Udp("203.0.113.71", datapathtest.Far4, 4).Bytes(), nil},
		{"an IPv4 node is reached by its mapping", datapathtest.Udp(datapathtest.Node6, "2001:db8:9::7", 4).Bytes(), to4, datapathtest.Udp(datapathtest.Node4, "203.0.113.200", 4).Bytes(), nil},
		{"an IPv4 node is seen by its mapping", datapathtest.Udp("203.0.113.200", datapathtest.Node4, 4).Bytes(), to6, datapathtest.Udp("2001:db8:9::7", datapathtest.Node6, 4).Bytes(), nil},
		{"between two mapped nodes the far one appears by the prefix", datapathtest.Udp("192.0.2.9", datapathtest.Node4, 3).Bytes(), to6, datapathtest.Udp("64:ff9b:1::192.0.2.9", datapathtest.Node6, 3).Bytes(), nil},
	})
}

// wrongUDP returns a datagram with a broken checksum, and what it must become:
// the data changed and the checksum did not, on both sides.
func wrongUDP(t *testing.T) (in, out []byte) {
	t.Helper()
	p6, p4 := datapathtest.Udp(datapathtest.Node6, datapathtest.Far6, 8), datapathtest.Udp(datapathtest.Node4, datapathtest.Far4, 8)
	p6.Payload, p4.Payload = datapathtest.With(p6.Payload, 12, 0xaa), datapathtest.With(p4.Payload, 12, 0xaa)
	return p6.Bytes(), p4.Bytes()
}

func TestAChecksumOfZeroIsSentAsAllOnes(t *testing.T) {
	// the data completes the sum, so that the checksum comes out as zero
	data := func(from, to string) []byte {
		s := datapathtest.UdpSegment(from, to, []byte{0, 0})
		return s[6:8]
	}
	d4, d6 := data(datapathtest.Node4, datapathtest.Far4), data(datapathtest.Far6, datapathtest.Node6)
	ones4 := datapathtest.Packet{From: datapathtest.Node4, To: datapathtest.Far4, Protocol: 17, Payload: datapathtest.UdpSegment(datapathtest.Node4, datapathtest.Far4, d4)}
	ones6 := datapathtest.Packet{From: datapathtest.Far6, To: datapathtest.Node6, Protocol: 17, Payload: datapathtest.UdpSegment(datapathtest.Far6, datapathtest.Node6, d6)}
	for _, p := range []datapathtest.Packet{ones4, ones6} {
		if p.Payload[6] != 0xff || p.Payload[7] != 0xff {
			t.Fatalf("the checksum is %x: this is no such packet", p.Payload[6:8])
		}
	}
	runVectors(t, datapathtest.Usual, []vector{
		{"towards IPv4", datapathtest.Packet{From: datapathtest.Node6, To: datapathtest.Far6, Protocol: 17, Payload: datapathtest.UdpSegment(datapathtest.Node6, datapathtest.Far6, d4)}.Bytes(), to4, ones4.Bytes(), nil},
		{"towards IPv6", datapathtest.Packet{From: datapathtest.Far4, To: datapathtest.Node4, Protocol: 17, Payload: datapathtest.UdpSegment(datapathtest.Far4, datapathtest.Node4, d6)}.Bytes(), to6, ones6.Bytes(), nil},
	})
}

func TestHeadersBetweenAreLeftBehind(t *testing.T) {
	behind := func(p datapathtest.Packet, options string) []byte {
		p.Options = datapathtest.Bin(options)
		if datapathtest.Addr(p.From).Is6() {
			p.Protocol = 60
		}
		return p.Bytes()
	}
	u6, u4 := datapathtest.Udp(datapathtest.Node6, datapathtest.Far6, 9), datapathtest.Udp(datapathtest.Node4, datapathtest.Far4, 9)
	v4, v6 := datapathtest.Udp(datapathtest.Far4, datapathtest.Node4, 9), datapathtest.Udp(datapathtest.Far6, datapathtest.Node6, 9)
	eight := strings.Repeat("3c00010400000000", 7) + "1100010400000000"
	hop := u6
	hop.Protocol, hop.Options = 0, datapathtest.Bin("3c00010400000000 1100010400000000")
	used := u6
	used.Protocol, used.Options = 43, datapathtest.Bin("1102000000000000 20010db8000000000000000000000001")
	runVectors(t, datapathtest.Usual, []vector{
		{"hop-by-hop options and destination options", hop.Bytes(), to4, u4.Bytes(), nil},
		{"a routing header that is used up", used.Bytes(), to4, u4.Bytes(), nil},
		{"an options header of 24 bytes", behind(u6, "1102010400000000 0000000000000000 0000000000000000"), to4, u4.Bytes(), nil},
		{"eight extension headers", behind(u6, eight), to4, u4.Bytes(), nil},
		{"IPv4 options, a source route that is used up among them", behind(v4, "01 830708c0000201 00 ffffff"), to6, v6.Bytes(), nil},
		{"forty bytes of record route", behind(v4, "0727 04"+strings.Repeat("00", 36)+"00"), to6, v6.Bytes(), nil},
	})
}

func TestWhatIsHardGoesToTheSlowPathUntouched(t *testing.T) {
	u6, u4 := datapathtest.Udp(datapathtest.Node6, datapathtest.Far6, 24), datapathtest.Udp(datapathtest.Far4, datapathtest.Node4, 24)
	first6, routed, unknown := u6, u6, datapathtest.Udp("2001:db8:77::1", datapathtest.Far6, 24)
	first6.Protocol, first6.Options = 44, datapathtest.Bin("11000001 aaaa1234")
	routed.Protocol, routed.Options = 43, datapathtest.Bin("1102000100000000 20010db8000000000000000000000001")
	first4, later4, long4 := u4, u4, datapathtest.Udp(datapathtest.Far4, datapathtest.Node4, 1261-28)
	first4.Flags, later4.Flags = 0x2000, 0x0003
	strict, loose := u4, u4
	strict.Options, loose.Options = datapathtest.Bin("890704c0000201 00"), datapathtest.Bin("01 830704c0000201 00000000")
	error6 := datapathtest.Packet{From: datapathtest.Node6, To: datapathtest.Far6, Protocol: 58, Payload: datapathtest.Message(datapathtest.Node6, datapathtest.Far6, 1, 4, "00000000", datapathtest.Udp(datapathtest.Far6, datapathtest.Node6, 8).Bytes())}
	outsider6 := datapathtest.Packet{From: "2001:db8:77::1", To: datapathtest.Far6, Protocol: 58, Payload: datapathtest.Message("2001:db8:77::1", datapathtest.Far6, 3, 0, "00000000", datapathtest.Udp(datapathtest.Far6, datapathtest.Node6, 8).Bytes())}
	error4 := datapathtest.Packet{From: datapathtest.Far4, To: datapathtest.Node4, Protocol: 1, Payload: datapathtest.Message(datapathtest.Far4, datapathtest.Node4, 3, 3, "00000000", datapathtest.Udp(datapathtest.Node4, datapathtest.Far4, 8).Bytes())}
	illegal4 := datapathtest.Packet{From: "127.0.0.1", To: datapathtest.Node4, Protocol: 1, Payload: datapathtest.Message("127.0.0.1", datapathtest.Node4, 11, 0, "00000000", datapathtest.Udp(datapathtest.Node4, datapathtest.Far4, 8).Bytes())}
	before := map[string]state.Outcome{"tc": state.SlowBeforeStack}
	runVectors(t, datapathtest.Usual, []vector{
		{"a fragment of IPv6", first6.Bytes(), state.SlowFragment, nil, nil},
		{"a routing header with segments left", routed.Bytes(), state.SlowErrorDue, nil, nil},
		{"a source without IPv4 address", unknown.Bytes(), state.SlowErrorDue, nil, nil},
		{"an ICMPv6 error", error6.Bytes(), state.SlowIcmpError, nil, nil},
		{"an ICMPv6 error of a router without IPv4 address", outsider6.Bytes(), state.SlowIcmpError, nil, nil},
		{"a first fragment of IPv4", first4.Bytes(), state.SlowFragment, nil, nil},
		{"a later fragment of IPv4", later4.Bytes(), state.SlowFragment, nil, nil},
		{"more than 1280 bytes that may be fragmented", long4.Bytes(), state.SlowFragNeeded, nil, nil},
		{"a strict source route", strict.Bytes(), state.SlowErrorDue, nil, before},
		{"a loose source route behind a no-op", loose.Bytes(), state.SlowErrorDue, nil, before},
		{"an ICMPv4 error", error4.Bytes(), state.SlowIcmpError, nil, nil},
		{"an ICMPv4 error of a router with an illegal address", illegal4.Bytes(), state.SlowIcmpError, nil, before},
	})
}
