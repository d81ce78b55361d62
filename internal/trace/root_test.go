package trace

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"weft/internal/testbin"
)

// routerFile: a member 2001:db8:1::2a that is 203.0.113.42 to the IPv4 side.
const routerFile = `
[interface.lan]
device = "wefttrace-lan"
addresses = ["2001:db8:1::1/64"]
[interface.wan]
device = "wefttrace-wan"
addresses = ["198.51.100.1/24"]
[nat64.main]
mode = "stateless"
interfaces = ["lan", "wan"]
prefix = "2001:db8:64::/96"
mappings = [{ ipv6 = "2001:db8:1::/120", ipv4 = "203.0.113.0/24" }]
`

func build(t *testing.T, list ...gopacket.SerializableLayer) []byte {
	t.Helper()
	b := gopacket.NewSerializeBuffer()
	options := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := gopacket.SerializeLayers(b, options, list...); err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(b.Bytes())
}

func udp6(t *testing.T, from, to string, hops uint8, payload string) []byte {
	ip := &layers.IPv6{Version: 6, HopLimit: hops, NextHeader: layers.IPProtocolUDP, SrcIP: net.ParseIP(from), DstIP: net.ParseIP(to)}
	udp := &layers.UDP{SrcPort: 1000, DstPort: 2000}
	_ = udp.SetNetworkLayerForChecksum(ip)
	return build(t, ip, udp, gopacket.Payload(payload))
}

func udp4(t *testing.T, from, to string, hops uint8, payload string) []byte {
	ip := &layers.IPv4{Version: 4, TTL: hops, Protocol: layers.IPProtocolUDP, SrcIP: net.ParseIP(from).To4(), DstIP: net.ParseIP(to).To4(), Flags: layers.IPv4DontFragment}
	udp := &layers.UDP{SrcPort: 1000, DstPort: 2000}
	_ = udp.SetNetworkLayerForChecksum(ip)
	return build(t, ip, udp, gopacket.Payload(payload))
}

// sameButID compares IPv4 packets apart from the identification, which is
// random, and the checksum that covers it.
func sameButID(a, b []byte) bool {
	if len(a) != len(b) || len(a) < 20 || a[0]>>4 != 4 {
		return bytes.Equal(a, b)
	}
	a, b = bytes.Clone(a), bytes.Clone(b)
	for _, p := range [][]byte{a, b} {
		clear(p[4:6])
		clear(p[10:12])
	}
	return bytes.Equal(a, b)
}

func TestEachWayGivesTheSamePacketsAndItsOwnDecisions(t *testing.T) {
	needRoot(t)
	member, server6, server4, member4 := "2001:db8:1::2a", "2001:db8:64::c633:640a", "198.51.100.10", "203.0.113.42"
	capture := func() *bytes.Buffer {
		return captureOf(t, true,
			udp6(t, member, server6, 64, "up"),
			udp6(t, member, "2001:db8:ffff::1", 64, "elsewhere"),
			udp6(t, "2001:db8:1:0:1::", server6, 64, "no mapping"),
			udp6(t, member, server6, 64, "cut")[:50],
		)
	}
	// IPv4 after translation has no DF up to 1260 bytes (RFC 7915 section 5.1)
	up := udp4(t, member4, server4, 63, "up")
	up[6] = 0
	elsewhere := udp6(t, member, "2001:db8:ffff::1", 63, "elsewhere")
	for via, want := range map[string][]string{
		"xdp":  {"forward forward-6to4-bypass", "pass pass-not-translated", "drop drop-source-unmapped", "drop drop-truncated"},
		"tc":   {"forward forward-6to4", "pass pass-not-translated", "drop drop-source-unmapped", "drop drop-truncated"},
		"slow": {"forward forward-6to4", "pass pass-not-translated", "drop drop-source-unmapped", "drop drop-truncated"},
	} {
		t.Run(via, func(t *testing.T) {
			results := runTrace(t, capture(), "--config", configFile(t, routerFile), "--in", "lan", "--via", via)
			if len(results) != len(want) {
				t.Fatalf("%d results, want %d: %+v", len(results), len(want), results)
			}
			for i, r := range results {
				if got := fmt.Sprint(r.Verdict, " ", r.Reason); got != want[i] || r.Packet != i+1 || r.In != "lan" || r.Outputs == nil || len(r.Decisions) == 0 {
					t.Errorf("packet %d: %+v, want %s", i+1, r, want[i])
				}
			}
			expect(t, results[0], "wan", up)
			expect(t, results[1], "lan", elsewhere) // IPv6 default route, out again
			if out := results[2].Outputs; len(out) != 1 || out[0].Interface != "lan" || !strings.HasPrefix(out[0].Hex, "60") {
				t.Errorf("the answer to the member without mapping: %+v", out)
			}
			expect(t, results[3], "")
		})
	}
}

// expect wants that packets left by an interface, in any order.
func expect(t *testing.T, r Result, by string, packets ...[]byte) {
	t.Helper()
	if len(r.Outputs) < len(packets) || len(packets) == 0 && len(r.Outputs) != 0 {
		t.Errorf("packet %d: %+v left, want %d packets by %s", r.Packet, r.Outputs, len(packets), by)
		return
	}
	for _, p := range packets {
		if !slices.ContainsFunc(r.Outputs, func(s Sent) bool {
			b, err := hex.DecodeString(s.Hex)
			return err == nil && s.Interface == by && sameButID(b, p)
		}) {
			t.Errorf("packet %d: %x did not leave by %s, but %+v", r.Packet, p, by, r.Outputs)
		}
	}
}

func TestInterfacesMayBeCalledByTheirDevices(t *testing.T) {
	needRoot(t)
	results := runTrace(t, captureOf(t, true, udp4(t, "198.51.100.10", "203.0.113.42", 9, "down")),
		"--config", configFile(t, routerFile), "--in", "wefttrace-wan")
	if len(results) != 1 || results[0].In != "wefttrace-wan" {
		t.Fatalf("got %+v", results)
	}
	expect(t, results[0], "wefttrace-lan", udp6(t, "2001:db8:64::c633:640a", "2001:db8:1::2a", 8, "down"))
}

func TestWithEthernetNobodyAnswersUntilTheCaptureDoes(t *testing.T) {
	needRoot(t)
	router, host := mac{2, 0, 0, 0, 0, 1}, mac{2, 0, 0, 0, 0, 2}
	// the device has the MAC that the first frame is addressed to
	question := frame(router, host, etherIPv4, udp4(t, "198.51.100.10", "203.0.113.42", 9, "down"))
	results := runTrace(t, captureOf(t, false, question, question[:10]),
		"--config", configFile(t, routerFile), "--in", "wan")
	if len(results) != 2 {
		t.Fatalf("got %+v", results)
	}
	if r := results[0]; r.Verdict != "forward" || len(r.Outputs) != 1 || r.Outputs[0].Interface != "lan" {
		t.Fatalf("got %+v", r)
	}
	asking, err := hex.DecodeString(results[0].Outputs[0].Hex)
	if err != nil {
		t.Fatal(err)
	}
	if a, ok := asked(asking); !ok || a.String() != "2001:db8:1::2a" {
		t.Errorf("the kernel sent %s", describe(false, asking, subscribers{}))
	}
	if r := results[1]; r.Verdict != "drop" || r.Reason != "frame-too-short" {
		t.Errorf("got %+v", r)
	}
}

func TestTheQuestionIsAnsweredByTheNextPacketOfTheCapture(t *testing.T) {
	needRoot(t)
	// plain IPv4 forwarding: 192.0.2.0/24 and 198.51.100.0/24
	file := configFile(t, `
[interface.a]
addresses = ["192.0.2.1/24"]
[interface.b]
addresses = ["198.51.100.1/24"]
`)
	router, host := mac{2, 0, 0, 0, 0, 1}, mac{2, 0, 0, 0, 0, 2}
	there := frame(router, host, etherIPv4, udp4(t, "192.0.2.7", "192.0.2.9", 9, "to the same link"))
	reply := frame(router, host, etherARP, build(t, &layers.ARP{
		AddrType: layers.LinkTypeEthernet, Protocol: layers.EthernetTypeIPv4, HwAddressSize: 6, ProtAddressSize: 4, Operation: layers.ARPReply,
		SourceHwAddress: host[:], SourceProtAddress: []byte{192, 0, 2, 9}, DstHwAddress: router[:], DstProtAddress: []byte{192, 0, 2, 1},
	}))
	results := runTrace(t, captureOf(t, false, there, reply), "--config", file, "--in", "a")
	if len(results) != 2 || len(results[1].Outputs) != 1 {
		t.Fatalf("got %+v", results)
	}
	left, err := hex.DecodeString(results[1].Outputs[0].Hex)
	if err != nil || !bytes.HasPrefix(left, host[:]) || !bytes.Contains(left, []byte("to the same link")) {
		t.Errorf("after the answer %s left", describe(false, left, subscribers{}))
	}
	if results[1].Reason != "outcome-none" {
		t.Errorf("no program is on the interface, and yet %+v", results[1])
	}
}

func TestWhatLeavesIsWrittenWithTheTimesOfTheCapture(t *testing.T) {
	needRoot(t)
	path := filepath.Join(t.TempDir(), "out.pcap")
	var packets [][]byte
	for i := range 3 {
		packets = append(packets, udp4(t, "198.51.100.10", "203.0.113.42", 9, fmt.Sprint("packet ", i)))
	}
	results := runTrace(t, captureOf(t, true, packets...), "--config", configFile(t, routerFile), "--in", "wan", "--write", path)
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	in, list, err := readAll(t, file)
	if err != nil || !in.Raw || len(list) != 3 || len(results) != 3 {
		t.Fatalf("%d packets written for %d results, %v", len(list), len(results), err)
	}
	for i, p := range list {
		if fmt.Sprintf("%x", p.Bytes) != results[i].Outputs[0].Hex {
			t.Errorf("packet %d: written %x, reported %s", i, p.Bytes, results[i].Outputs[0].Hex)
		}
		if p.Time.Before(time.UnixMilli(int64(i))) {
			t.Errorf("packet %d left at %v, before it came", i, p.Time)
		}
	}
}

func TestMistakesAreToldInOneLine(t *testing.T) {
	needRoot(t)
	good := configFile(t, routerFile)
	bad := configFile(t, "[interface.lan]\naddresses = [\"2001:db8::\"]\n")
	clash := configFile(t, strings.Replace(routerFile, `"wefttrace-lan"`, `"lo"`, 1))
	packet := captureOf(t, true, udp4(t, "198.51.100.10", "203.0.113.42", 9, "")).Bytes()
	for _, c := range []struct {
		name  string
		stdin []byte
		args  []string
		want  string
	}{
		{"an interface that is not there", packet, []string{"--config", good, "--in", "lam"}, `--in lam: there is no [interface.lam]`},
		{"an unknown way", packet, []string{"--config", good, "--in", "lan", "--via", "air"}, "it is xdp, tc or slow"},
		{"a configuration with a mistake", packet, []string{"--config", bad, "--in", "lan"}, ":2:14: error: interface.lan.addresses[0]"},
		{"no configuration", packet, []string{"--config", good + ".not", "--in", "lan"}, "no such file"},
		{"no capture", packet, []string{"--config", good, "--in", "lan", "--read", good + ".not"}, "open capture"},
		{"a text for a capture", []byte("hello, world; hello, packets"), []string{"--config", good, "--in", "lan"}, "read header of the pcap file"},
		{"a capture cut in the middle", packet[:len(packet)-3], []string{"--config", good, "--in", "lan"}, "packet 1 of the capture: the file ends in the middle"},
		{"nothing on standard input", nil, []string{"--config", good, "--in", "lan"}, "it is empty"},
		{"a device that no veth can be", packet, []string{"--config", clash, "--in", "lan"}, "make veth device lo"},
		{"no interface", packet, []string{"--config", good}, `"in" not set`},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), testbin.Weft(t), append([]string{"trace"}, c.args...)...)
			var errs bytes.Buffer
			cmd.Stdin, cmd.Stderr = bytes.NewReader(c.stdin), &errs
			if err := cmd.Run(); err == nil {
				t.Error("it went well")
			}
			if s := errs.String(); !strings.Contains(s, c.want) || strings.Count(s, "\n") != 1 {
				t.Errorf("it said %q, want one line with %q", s, c.want)
			}
		})
	}
}

func TestWithoutRootItSaysSo(t *testing.T) {
	needRoot(t)
	// the unprivileged user may not read root's directories: the program is reached
	// by descriptor, and the configuration is world-readable
	program, err := os.Open(testbin.Weft(t))
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	file, err := os.CreateTemp("", "weft-trace-*.toml")
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(file.Name())
	_, err = file.WriteString(routerFile)
	if err := errors.Join(err, file.Chmod(0o644), file.Close()); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/fd/3", "trace", "--config", file.Name(), "--in", "lan")
	cmd.ExtraFiles = []*os.File{program}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "weft trace needs root") {
		t.Errorf("%v, it said %q", err, out)
	}
}

// A sender is behind its ingress interface: an answer to an address off the links
// does not leave by the default route of another interface.
func TestAnAnswerToAFarSourceLeavesWhereItCameFrom(t *testing.T) {
	needRoot(t)
	file := "[interface.dmz]\ndevice = \"wefttrace-dmz\"\naddresses = [\"2001:db8:99::1/64\"]\n" + routerFile
	capture := captureOf(t, true, udp6(t, "2001:db8:ffff::7", "2001:db8:64::c633:640a", 64, "no mapping"))
	for _, r := range runTrace(t, capture, "--config", configFile(t, file), "--in", "lan", "--via", "tc") {
		if len(r.Outputs) != 1 || r.Outputs[0].Interface != "lan" {
			t.Errorf("the answer to the sender: %+v", r.Outputs)
		}
	}
}

// The slow path's own question to a stateful translator is not forced back to it.
func TestAStatefulTranslatorIsTracedBySlowPath(t *testing.T) {
	needRoot(t)
	file := `[interface.lan]
device = "wefttrace-lan"
addresses = ["2001:db8:1::1/64"]
[interface.wan]
device = "wefttrace-wan"
addresses = ["198.51.100.1/24"]
[nat64.main]
mode = "stateful"
interfaces = ["lan", "wan"]
prefix = "2001:db8:64::/96"
pools = [{ ipv4 = "203.0.113.1" }]
`
	capture := captureOf(t, true, udp6(t, "2001:db8:1::7", "2001:db8:64::198.51.100.9", 64, "x"))
	for _, r := range runTrace(t, capture, "--config", configFile(t, file), "--in", "lan", "--via", "slow") {
		if r.Verdict != "forward" || len(r.Outputs) != 1 || r.Outputs[0].Interface != "wan" {
			t.Errorf("%+v", r)
		}
	}
}

// A device of less than 1280 bytes has no IPv6, and IPv4 all the same.
func TestADeviceTooSmallForIPv6IsTraced(t *testing.T) {
	needRoot(t)
	file := `[interface.lan]
device = "wefttrace-lan"
addresses = ["192.0.2.1/24"]
mtu = 1000
[interface.wan]
device = "wefttrace-wan"
addresses = ["198.51.100.1/24"]
`
	capture := captureOf(t, true, udp4(t, "192.0.2.7", "198.51.100.9", 64, "x"))
	for _, r := range runTrace(t, capture, "--config", configFile(t, file), "--in", "lan") {
		if len(r.Outputs) != 1 || r.Outputs[0].Interface != "wan" {
			t.Errorf("%+v", r)
		}
	}
}
