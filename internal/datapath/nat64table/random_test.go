package nat64table

import (
	"flag"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"weft/internal/datapath/datapathtest"
	"weft/internal/state"
	"weft/internal/translate"
	"weft/internal/translate/packetgen"
)

// Random packets through the programs and through the Go reference: what the
// programs send on is the reference's packet byte for byte, what they drop it
// drops for the same reason, and what they leave or hand to the slow path is
// of the kinds that may be.

var seed = flag.Uint64("seed", 1, "of the random packets")

const interfaces = `
[interface.lan]
addresses = ["2001:db8:1::1/64"]
bypass = true
[interface.wan]
addresses = ["198.51.100.1/24"]
bypass = true
[nat64.main]
mode = "stateless"
interfaces = ["lan", "wan"]
`

// careful has every option set another way than the default.
const careful = interfaces + `
prefix = "64:ff9b::/96"
mappings = [
  { ipv6 = "2001:db8:3::/120", ipv4 = "8.8.4.0/24" },
  { ipv6 = "2001:db8:5::/64", ipv4 = "9.9.9.64/28" },
]
tcp_mss_clamp = true
udp_zero_checksum = "compute"
lowest_ipv6_mtu = 1400
copy_traffic_class = false
`

const bare = interfaces + `
mappings = [
  { ipv6 = "2001:db8:3::/120", ipv4 = "192.0.2.0/24" },
  { ipv6 = "2001:db8:6::/48", ipv4 = "203.0.112.0/20" },
  { ipv6 = "2001:db8:9::/112", ipv4 = "198.18.0.0/16", node = "ipv4" },
]
`

const batch = 500

func TestTenThousandRandomPacketsMatchTheReference(t *testing.T) {
	testRandom(t, datapathtest.Usual, 10_000)
}

func TestRandomPacketsMatchTheReferenceWithEveryOption(t *testing.T) {
	testRandom(t, careful, 2_000)
}

func TestRandomPacketsMatchTheReferenceWithoutPrefix(t *testing.T) {
	testRandom(t, bare, 2_000)
}

func TestRandomPacketsMatchTheReferenceUnderEveryPrefixLength(t *testing.T) {
	for _, prefix := range []string{
		"2001:db8::/32", "2001:db8:100::/40", "2001:db8:122::/48", "2001:db8:122:300::/56", "2001:db8:122:344::/64", "2001:db8:122:344::/96",
	} {
		t.Run(prefix[strings.Index(prefix, "/")+1:], func(t *testing.T) {
			testRandom(t, strings.ReplaceAll(interfaces, "2001:db8:1::1", "fd00:1::1")+
				fmt.Sprintf("prefix = %q\ntranslatable = [\"192.0.2.0/24\", \"203.0.113.128/25\"]\n", prefix), 500)
		})
	}
}

// testRandom sends count packets of each family along each road.
func testRandom(t *testing.T, toml string, count int) {
	t.Helper()
	b := newBench(t, toml, parts()...)
	g := packetgen.New(*seed, b.Reference)
	t.Logf("seed %d", *seed)
	for _, family := range []string{"IPv6", "IPv4"} {
		packets, kinds := make([][]byte, count), make([]string, count)
		for i := range packets {
			if family == "IPv6" {
				packets[i], kinds[i] = g.Next6()
			} else {
				packets[i], kinds[i] = g.Next4()
			}
		}
		for _, r := range datapathtest.Variants() {
			if family == "IPv6" || r.Takes4 {
				b.compare(t, r, family, packets, kinds)
			}
		}
	}
}

// compare sends packets along a road and compares each with the reference.
func (b *bench) compare(t *testing.T, r datapathtest.Variant, family string, packets [][]byte, kinds []string) {
	t.Helper()
	b.TakeVariant(r)
	met, faults := map[string]int{}, 0
	device := map[string]string{"IPv6": "lan", "IPv4": "wan"}[family]
	from := device
	if r.Name == "translator" && family == "IPv6" {
		from = ""
	}
	for start := 0; start < len(packets); start += batch {
		part := packets[start:min(start+batch, len(packets))]
		frames := make([][]byte, len(part))
		for i, p := range part {
			frames[i] = b.Frame(device, p)
			frames[i][12], frames[i][13] = 0x08, 0x00
			if family == "IPv6" {
				frames[i][12], frames[i][13] = 0x86, 0xdd
			}
		}
		for i, res := range b.Run(r.Program, from, frames...) {
			if datapathtest.Refused(res, frames[i]) {
				met["not taken by the test run"]++
				continue
			}
			o, err := b.agree(r, family, part[i], frames[i], res)
			met[o.String()]++
			if err != nil && faults < 3 {
				faults++
				t.Errorf("%s, %s, packet %d (%s): %v\n%x", r.Name, family, start+i, kinds[start+i], err, part[i])
			}
		}
	}
	forwarded := 0
	for o, n := range met {
		if strings.HasPrefix(o, "forward") {
			forwarded += n
		}
	}
	if forwarded < len(packets)/10 {
		t.Errorf("%s, %s: only %d of %d packets were forwarded", r.Name, family, forwarded, len(packets))
	}
	var lines []string
	for _, o := range slices.Sorted(maps.Keys(met)) {
		lines = append(lines, fmt.Sprintf("%s %d", o, met[o]))
	}
	t.Logf("%s, %s: %s", r.Name, family, strings.Join(lines, ", "))
}

// agree compares one result with the reference.
func (b *bench) agree(r datapathtest.Variant, family string, pkt, frame []byte, res datapathtest.Result) (state.Outcome, error) {
	got, err := r.Outcome(res)
	if err != nil {
		return got, err
	}
	// The stack and bpf_fib_lookup count the TTL down and know the MTUs.
	c := *b.Reference
	c.MTU4, c.MTU6, c.Identification = 0, 0, nil
	ref := c.Translate6
	if family == "IPv4" {
		ref = c.Translate4
	}
	want := ref(pkt)
	packet := []byte(nil)
	if len(want.Out) == 1 {
		packet = want.Out[0]
	}
	if err := r.Check(b.Bench, frame, res, got, packet); err != nil {
		return got, fmt.Errorf("%w (the reference: %s)", err, want.Outcome)
	}
	if !mayBe(r, &c, got, want, pkt, packet) {
		return got, fmt.Errorf("met %s, and the reference %s with %d packets", got, want.Outcome, len(want.Out))
	}
	return got, nil
}

// mayBe reports whether a program may decide got where the reference has want.
func mayBe(r datapathtest.Variant, c *translate.Config, got state.Outcome, want translate.Result, pkt, out []byte) bool {
	forwards := want.Outcome.Verdict() == state.Forward
	switch got.Verdict() {
	case state.Forward:
		return forwards && len(want.Out) == 1
	case state.Drop:
		return got == want.Outcome ||
			r.Name == "translator" && got == state.DropDestinationUnmapped && want.Outcome == state.PassNotTranslated ||
			got == state.DropIllegalAddress && want.Outcome.Verdict() == state.Drop && oldICMPError(pkt)
	case state.Slow:
		return hard(got, c, want, pkt)
	}
	switch got {
	case state.PassNotTranslated, state.PassLinkScope:
		return got == want.Outcome
	case state.PassTtl:
		return forwards && r.Bypass && ttl(pkt) <= 1
	case state.PassNoNeighbour: // a neighbour that has not been seen yet
		return forwards && onLink(out)
	case state.PassTooBig:
		return forwards && len(out) > 1500
	case state.PassSlow:
		for o := range state.OutcomeCount {
			if o.Verdict() == state.Slow && hard(o, c, want, pkt) {
				return true
			}
		}
	}
	return false
}

func ttl(pkt []byte) byte {
	if datapathtest.IsIPv4(pkt) {
		return pkt[8]
	}
	return pkt[7]
}

// hard reports whether a packet is such as o says, which the slow path is for.
func hard(o state.Outcome, c *translate.Config, want translate.Result, pkt []byte) bool {
	protocol, at, fragment := transport(pkt)
	switch o {
	case state.SlowFragment:
		return fragment
	case state.SlowIcmpError:
		return !fragment && at < len(pkt) && (protocol == 58 && pkt[at] < 128 || protocol == 1 && (pkt[at] == 3 || pkt[at] == 11 || pkt[at] == 12))
	case state.SlowFragNeeded:
		return datapathtest.IsIPv4(pkt) && pkt[6]&0x40 == 0 && len(pkt)-at+40 > c.LowestIPv6MTU
	case state.SlowErrorDue:
		switch want.Outcome {
		case state.DropSourceRoute, state.DropProtocol, state.DropExtensionHeaders, state.DropUdpZeroChecksum:
			return true
		}
		return unmapped(c, pkt)
	case state.SlowTooBig:
		return len(want.Out) == 1 && len(want.Out[0]) > 1500
	case state.SlowUdpChecksum:
		return c.ComputeUDPZero && protocol == 17 && len(pkt)-at > 10272
	case state.SlowBeforeStack:
		return datapathtest.IsIPv4(pkt) && (at > 20 || protocol == 1)
	}
	return false
}

// unmapped reports whether the source of a packet has no address in the other family.
func unmapped(c *translate.Config, pkt []byte) bool {
	if datapathtest.IsIPv4(pkt) {
		ends := [2]string{netip.AddrFrom4([4]byte(pkt[12:16])).String(), netip.AddrFrom4([4]byte(pkt[16:20])).String()}
		return c.Translate4(datapathtest.Udp(ends[0], ends[1], 1).Bytes()).Outcome == state.DropSourceUnmapped
	}
	source := netip.AddrFrom16([16]byte(pkt[8:24])).String()
	return c.Translate6(datapathtest.Udp(source, netip.AddrFrom16([16]byte(pkt[24:40])).String(), 1).Bytes()).Outcome == state.DropSourceUnmapped
}

// onLink reports whether a packet goes to a subnet of lan or wan.
func onLink(pkt []byte) bool {
	if datapathtest.IsIPv4(pkt) {
		return netip.MustParsePrefix("198.51.100.0/24").Contains(netip.AddrFrom4([4]byte(pkt[16:20])))
	}
	return netip.MustParsePrefix("2001:db8:1::/64").Contains(netip.AddrFrom16([16]byte(pkt[24:40])))
}

// oldICMPError tells ICMPv4 messages that are errors, but not of a kind or
// length that is translated. If their source is illegal too, either is a reason.
func oldICMPError(pkt []byte) bool {
	protocol, at, _ := transport(pkt)
	return datapathtest.IsIPv4(pkt) && protocol == 1 && at < len(pkt) && slices.Contains([]byte{3, 4, 5, 11, 12}, pkt[at])
}

// transport returns the protocol behind an IP header and what lies between, the
// offset at which it starts, and whether the packet is a fragment.
func transport(pkt []byte) (protocol byte, at int, fragment bool) {
	if datapathtest.IsIPv4(pkt) {
		return pkt[9], int(pkt[0]&15) * 4, pkt[6]&0x3f|pkt[7] != 0
	}
	protocol, at = pkt[6], 40
	for at+8 <= len(pkt) {
		switch protocol {
		case 44:
			return pkt[at], at + 8, true
		case 0, 43, 60:
			protocol, at = pkt[at], at+8*(1+int(pkt[at+1]))
			continue
		}
		break
	}
	return protocol, at, false
}
