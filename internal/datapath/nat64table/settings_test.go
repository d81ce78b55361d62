package nat64table

import (
	"fmt"
	"strings"
	"testing"

	"weft/internal/datapath/datapathtest"
	"weft/internal/state"
)

func TestEveryPrefixLengthEmbedsAsTheTableOfRFC6052Shows(t *testing.T) {
	for prefix, embedded := range map[string]string{ // section 2.4, 192.0.2.33
		"2001:db8::/32":         "2001:db8:c000:221::",
		"2001:db8:100::/40":     "2001:db8:1c0:2:21::",
		"2001:db8:122::/48":     "2001:db8:122:c000:2:2100::",
		"2001:db8:122:300::/56": "2001:db8:122:3c0:0:221::",
		"2001:db8:122:344::/64": "2001:db8:122:344:c0:2:2100::",
		"2001:db8:122:344::/96": "2001:db8:122:344::192.0.2.33",
	} {
		t.Run(prefix[strings.Index(prefix, "/")+1:], func(t *testing.T) {
			toml := strings.ReplaceAll(interfaces, "2001:db8:1::1", "fd00:1::1") + fmt.Sprintf(
				"prefix = %q\nmappings = [{ ipv6 = \"fd00:3::7\", ipv4 = \"198.18.0.7\" }]\n", prefix)
			mapped6, mapped4 := "fd00:3::7", "198.18.0.7"
			vectors := []vector{
				{"to a host under the prefix", datapathtest.Udp(mapped6, embedded, 7).Bytes(), to4, datapathtest.Udp(mapped4, "192.0.2.33", 7).Bytes(), nil},
				{"from a host under the prefix", datapathtest.Udp("192.0.2.33", mapped4, 7).Bytes(), to6, datapathtest.Udp(embedded, mapped6, 7).Bytes(), nil},
			}
			runVectors(t, toml, vectors)
			// the same address as that of an IPv6 node
			toml = strings.Replace(toml, "mappings = [{ ipv6 = \"fd00:3::7\"", "translatable = [\"192.0.2.0/24\"]\nmappings = [{ node = \"ipv4\", ipv6 = \"fd00:3::7\"", 1)
			runVectors(t, toml, []vector{
				{"from a node with an IPv4-translatable address", datapathtest.Udp(embedded, mapped6, 7).Bytes(), to4, datapathtest.Udp("192.0.2.33", mapped4, 7).Bytes(), nil},
				{"to such a node", datapathtest.Udp(mapped4, "192.0.2.33", 7).Bytes(), to6, datapathtest.Udp(mapped6, embedded, 7).Bytes(), nil},
			})
		})
	}
}

func TestTheUOctetMustBeZero(t *testing.T) {
	toml := strings.ReplaceAll(interfaces, "2001:db8:1::1", "fd00:1::1") + `
prefix = "2001:db8:122::/48"
mappings = [{ ipv6 = "fd00:3::7", ipv4 = "198.18.0.7" }]
`
	runVectors(t, toml, []vector{
		{"in a destination", datapathtest.Udp("fd00:3::7", "2001:db8:122:c000:102:2100::", 7).Bytes(), state.PassNotTranslated, nil, nil},
		{"and what follows the address does not matter", datapathtest.Udp("fd00:3::7", "2001:db8:122:c000:2:2100:1:2", 7).Bytes(), to4, datapathtest.Udp("198.18.0.7", "192.0.2.33", 7).Bytes(), nil},
	})
}

func TestPrivateAddressesDoNotCrossUnderTheWellKnownPrefix(t *testing.T) {
	toml := interfaces + `
prefix = "64:ff9b::/96"
mappings = [{ ipv6 = "2001:db8:3::7", ipv4 = "8.8.4.7" }]
`
	vectors := []vector{
		{"8.8.8.8 does", datapathtest.Udp("2001:db8:3::7", "64:ff9b::8.8.8.8", 7).Bytes(), to4, datapathtest.Udp("8.8.4.7", "8.8.8.8", 7).Bytes(), nil},
		{"and back", datapathtest.Udp("8.8.8.8", "8.8.4.7", 7).Bytes(), to6, datapathtest.Udp("64:ff9b::8.8.8.8", "2001:db8:3::7", 7).Bytes(), nil},
		{"172.32.0.1, just outside, does", datapathtest.Udp("2001:db8:3::7", "64:ff9b::172.32.0.1", 7).Bytes(), to4, datapathtest.Udp("8.8.4.7", "172.32.0.1", 7).Bytes(), nil},
	}
	for _, private := range []string{"10.0.0.1", "100.64.0.1", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.19.255.255", "198.51.100.7", "203.0.113.7"} {
		vectors = append(vectors,
			vector{"to " + private, datapathtest.Udp("2001:db8:3::7", "64:ff9b::"+private, 7).Bytes(), state.DropIllegalAddress, nil, nil},
			vector{"from " + private, datapathtest.Udp(private, "8.8.4.7", 7).Bytes(), state.DropIllegalAddress, nil, nil})
	}
	runVectors(t, toml, vectors)
}

func TestWithoutPrefixAnUnknownIPv4SourceIsTold(t *testing.T) {
	runVectors(t, bare, []vector{
		{"unknown", datapathtest.Udp("8.8.8.8", "192.0.2.7", 7).Bytes(), state.SlowErrorDue, nil, nil},
		{"an IPv4 node with a mapping", datapathtest.Udp("198.18.1.2", "192.0.2.7", 7).Bytes(), to6, datapathtest.Udp("2001:db8:9::102", "2001:db8:3::7", 7).Bytes(), nil},
		{"another IPv6 node, whose mapping must do", datapathtest.Udp("192.0.2.9", "192.0.2.7", 7).Bytes(), to6, datapathtest.Udp("2001:db8:3::9", "2001:db8:3::7", 7).Bytes(), nil},
	})
}

func TestAMissingUDPChecksumIsComputedIfAsked(t *testing.T) {
	toml := datapathtest.Usual + "udp_zero_checksum = \"compute\"\n"
	var vectors []vector
	for _, n := range []int{0, 1, 2, 119, 120, 121, 127, 128, 129, 1000, 1232} {
		without := datapathtest.Udp(datapathtest.Far4, datapathtest.Node4, n)
		without.Payload, without.Flags = datapathtest.With(without.Payload, 6, 0, 0), datapathtest.Df
		vectors = append(vectors, vector{fmt.Sprintf("%d bytes", n), without.Bytes(), to6, datapathtest.Udp(datapathtest.Far6, datapathtest.Node6, n).Bytes(), nil})
	}
	// a UDP length below that of the packet: only what it covers is summed
	short := datapathtest.Udp(datapathtest.Far4, datapathtest.Node4, 4)
	short.Payload = append(datapathtest.With(short.Payload, 6, 0, 0), 0xaa, 0xbb)
	out := datapathtest.Udp(datapathtest.Far6, datapathtest.Node6, 4)
	out.Payload = append(out.Payload, 0xaa, 0xbb)
	vectors = append(vectors, vector{"with bytes behind the datagram", short.Bytes(), to6, out.Bytes(), nil})
	runVectors(t, toml, vectors)
}

func TestTheMSSIsClampedWhereverItStands(t *testing.T) {
	toml := datapathtest.Usual + "tcp_mss_clamp = true\n" // 1500 - 60 = 1440
	var vectors []vector
	for name, o := range map[string][2]string{
		"alone":                         {"020405b4", "020405a0"},
		"after a no-op, at an odd byte": {"01020405b4000000", "01020405a0000000"},
		"after two no-ops":              {"0101020405b40000", "0101020405a00000"},
		"after a window scale":          {"030307020405b400", "030307020405a000"},
		"after timestamps and selective acknowledgement": {"0402080a0102030405060708020405b4", "0402080a0102030405060708020405a0"},
		"a value that fits":               {"020405a0", "020405a0"},
		"a smaller value":                 {"02040218", "02040218"},
		"the largest value":               {"0204ffff", "020405a0"},
		"behind the end of the list":      {"00020405b4000000", "00020405b4000000"},
		"behind an option of length zero": {"0500020405b40000", "0500020405b40000"},
		"of a wrong length":               {"020505b400000000", "020505b400000000"},
		"cut off by the header's end":     {"0101010101010204", "0101010101010204"},
		"the second of two":               {"020405b4020405b4", "020405a0020405b4"},
	} {
		for _, flags := range []byte{0x02, 0x12} {
			vectors = append(vectors,
				vector{"IPv6, " + name, datapathtest.Tcp(datapathtest.Node6, datapathtest.Far6, flags, datapathtest.Bin(o[0]), 3).Bytes(), to4, datapathtest.Tcp(datapathtest.Node4, datapathtest.Far4, flags, datapathtest.Bin(o[1]), 3).Bytes(), nil},
				vector{"IPv4, " + name, datapathtest.Tcp(datapathtest.Far4, datapathtest.Node4, flags, datapathtest.Bin(o[0]), 3).Bytes(), to6, datapathtest.Tcp(datapathtest.Far6, datapathtest.Node6, flags, datapathtest.Bin(o[1]), 3).Bytes(), nil})
		}
	}
	ack := datapathtest.Bin("020405b4")
	vectors = append(vectors, vector{"not without SYN", datapathtest.Tcp(datapathtest.Node6, datapathtest.Far6, 0x10, ack, 3).Bytes(), to4, datapathtest.Tcp(datapathtest.Node4, datapathtest.Far4, 0x10, ack, 3).Bytes(), nil})
	runVectors(t, toml, vectors)
}

func TestTheTrafficClassBecomesZeroIfItIsNotCopied(t *testing.T) {
	in6, in4, out4, out6 := datapathtest.Udp(datapathtest.Node6, datapathtest.Far6, 7), datapathtest.Udp(datapathtest.Far4, datapathtest.Node4, 7), datapathtest.Udp(datapathtest.Node4, datapathtest.Far4, 7).Bytes(), datapathtest.Udp(datapathtest.Far6, datapathtest.Node6, 7).Bytes()
	in6.Tos, in4.Tos = 0xb9, 0xb9
	runVectors(t, datapathtest.Usual+"copy_traffic_class = false\n", []vector{
		{"towards IPv4", in6.Bytes(), to4, datapathtest.Healed(datapathtest.With(out4, 1, 0)), nil},
		{"towards IPv6", in4.Bytes(), to6, datapathtest.With(out6, 0, 0x60, 0), nil},
	})
}

func TestALinkThatIsKnownToCarryMoreGetsMore(t *testing.T) {
	free := datapathtest.Udp(datapathtest.Far4, datapathtest.Node4, 1400-48)
	over := datapathtest.Udp(datapathtest.Far4, datapathtest.Node4, 1401-48)
	runVectors(t, datapathtest.Usual+"lowest_ipv6_mtu = 1400\n", []vector{
		{"1400 bytes", free.Bytes(), to6, datapathtest.Udp(datapathtest.Far6, datapathtest.Node6, 1400-48).Bytes(), nil},
		{"1401 bytes", over.Bytes(), state.SlowFragNeeded, nil, nil},
	})
}
