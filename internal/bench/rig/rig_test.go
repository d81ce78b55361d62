package rig

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"weft/internal/lab/netspace"
)

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces and eBPF need root")
	}
}

var (
	mac = net.HardwareAddr{2, 0, 0, 0, 0, 1}
	in4 = Datagrams{FromMAC: mac, ToMAC: mac, From: netip.MustParseAddr("192.0.2.1"), To: netip.MustParseAddr("198.51.100.2"), Length: 64}
	in6 = Datagrams{FromMAC: mac, ToMAC: mac, From: netip.MustParseAddr("2001:db8::1"), To: netip.MustParseAddr("2001:db8::2"), Length: 1500}
)

func TestAFrameThatWasHarmedIsNotVerified(t *testing.T) {
	for _, d := range []Datagrams{in4, in6} {
		frame, udpAt, err := d.frame()
		if err != nil {
			t.Fatal(err)
		}
		is6 := d.From.Is6()
		if err := verify(frame, is6, d.Length); err != nil {
			t.Errorf("unharmed: %v", err)
		}
		if verify(frame, !is6, d.Length) == nil || verify(frame, is6, d.Length+20) == nil {
			t.Error("another family or length passed")
		}
		for _, at := range []int{udpAt, udpAt + 7, len(frame) - 1, udpAt - 1} {
			harmed := bytes.Clone(frame)
			harmed[at] ^= 0x10
			if verify(harmed, is6, d.Length) == nil {
				t.Errorf("byte %d was flipped, and it passed", at)
			}
		}
		if verify(frame[:len(frame)-1], is6, d.Length) == nil || verify(nil, is6, d.Length) == nil {
			t.Error("a frame cut short passed")
		}
	}
}

func TestADatagramTooShortForItsHeadersIsRefused(t *testing.T) {
	d := in6
	d.Length = 49
	if _, _, err := d.frame(); err == nil {
		t.Error("it was made")
	}
}

// host is a namespace with an eth0, gone after the test.
func host(t *testing.T) *netspace.Space { return way(t).Left }

// way is a path, gone after the test.
func way(t *testing.T) *Path {
	t.Helper()
	needRoot(t)
	ends := func(host6, router6, host4, router4 string) Ends {
		return Ends{
			Host:   [2]netip.Prefix{netip.MustParsePrefix(host6), netip.MustParsePrefix(host4)},
			Router: [2]netip.Prefix{netip.MustParsePrefix(router6), netip.MustParsePrefix(router4)},
		}
	}
	p, err := NewPath(PathOptions{
		Name: "test", Forward: true,
		Lan: ends("2001:db8:1::2/64", "2001:db8:1::1/64", "192.0.2.2/24", "192.0.2.1/24"),
		Wan: ends("2001:db8:2::2/64", "2001:db8:2::1/64", "198.51.100.2/24", "198.51.100.1/24"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return p
}

func TestTheGeneratorWritesWholeFramesOfManyFlowsWithRightChecksums(t *testing.T) {
	space := host(t)
	for _, d := range []Datagrams{in4, in6} {
		g, err := NewGenerator(space, d)
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		ports := map[uint16]bool{}
		for range 2 * flows {
			out := make([]byte, len(g.frame))
			// What a recycled frame holds is anything.
			o := ebpf.RunOptions{Data: bytes.Repeat([]byte{0xaa}, len(g.frame)), DataOut: out, Repeat: 1}
			if _, err := g.objects.Generate.Run(&o); err != nil {
				t.Fatal(err)
			}
			if err := verify(out, d.From.Is6(), d.Length); err != nil {
				t.Fatal(err)
			}
			ports[binary.BigEndian.Uint16(out[14+map[bool]int{true: 40, false: 20}[d.From.Is6()]:])] = true
		}
		// on whichever CPU the runs were, each counts for itself
		if len(ports) < flows/2 || len(ports) > flows {
			t.Errorf("%d source ports, want up to %d", len(ports), flows)
		}
	}
}

// A generator that heeds its sink sends no more than arrives, and goes on where nothing
// does, which it tells.
func TestAGeneratorHeedsItsSink(t *testing.T) {
	p := way(t)
	for device, lost := range map[string]bool{"lan": false, "wan": true} {
		sink, err := p.NewSinkAt(p.Router, device)
		if err != nil {
			t.Fatal(err)
		}
		d := in4
		d.Length = 64
		g, err := newGenerator(p.Left, d, sink)
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		sent, err := g.Chunks(2 * chunk)
		if err != nil {
			t.Fatal(err)
		}
		if !lost { // another has its turn between
			other, err := newGenerator(p.Left, d, sink)
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close()
			for _, g := range []*Generator{other, g} {
				more, err := g.Chunks(chunk)
				if err != nil {
					t.Fatal(err)
				}
				sent += more
			}
			if n, err := other.Lost(); n > 0 || err != nil {
				t.Errorf("the second waited for %d in vain (%v)", n, err)
			}
		}
		inVain, err := g.Lost()
		received, errReceived := sink.Received(false)
		if err != nil || errReceived != nil {
			t.Fatal(err, errReceived)
		}
		if (inVain > 0) != lost || !lost && received != uint64(sent) {
			t.Errorf("sink at %s: %d sent, %d arrived, %d waited for in vain", device, sent, received, inVain)
		}
	}
}

// Each flow comes once before the first comes again, in turn or mixed; what
// remembers where the flow before was knows nothing of the next one.
func TestFlowsOfManyHostsComeInTurnOrMixed(t *testing.T) {
	space := host(t)
	for _, mixed := range []bool{false, true} {
		d := in4
		d.Flows, d.Hosts, d.Mixed = 256, 16, mixed
		g, err := NewGenerator(space, d)
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		seen, order, near := map[int]bool{}, []int(nil), 0
		err = space.Do(func() error { // each CPU counts for itself
			free, err := pin()
			if err != nil {
				return err
			}
			defer free()
			for range d.Flows * d.Hosts {
				out := make([]byte, len(g.frame))
				o := ebpf.RunOptions{Data: bytes.Repeat([]byte{0xaa}, len(g.frame)), DataOut: out, Repeat: 1}
				if _, err := g.objects.Generate.Run(&o); err != nil {
					return err
				}
				if err := verify(out, false, d.Length); err != nil {
					return err
				}
				host := int(out[14+15]) - int(d.From.As4()[3])
				flow := host*d.Flows + int(binary.BigEndian.Uint16(out[14+20:])) - firstPort
				if n := len(order); n > 0 && max(order[n-1]-flow, flow-order[n-1]) < d.Flows/4 {
					near++
				}
				seen[flow], order = true, append(order, flow)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		all := d.Flows * d.Hosts
		if len(seen) != all {
			t.Errorf("mixed %v: %d flows, want %d", mixed, len(seen), all)
		}
		if got := near > all/2; got == mixed {
			t.Errorf("mixed %v: %d of %d flows are near the one before", mixed, near, all)
		}
	}
}

func TestWhatTheStackHasForwardedIsFoundByItsName(t *testing.T) {
	n, err := forwarded("Ip: Forwarding DefaultTTL ForwDatagrams InUnknownProtos\nIp: 1 64 1234 0\nIcmp: InMsgs\nIcmp: 7\n")
	if n != 1234 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
	for _, text := range []string{"", "Ip: Forwarding\nIp: 1\n", "Ip: Forwarding ForwDatagrams\n", "Ip: Forwarding ForwDatagrams\nIp: 1\n"} {
		if _, err := forwarded(text); err == nil {
			t.Errorf("%q passed", text)
		}
	}
}

func TestTheServersReportsAfterTheFirstAreTheGoodput(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       float64
	}{
		{"two halves of a second after the warm-up", `{"server_output_json":{"intervals":[
			{"sum":{"start":0,"seconds":0.5,"bytes":999e9}},
			{"sum":{"start":0.500012,"seconds":0.5,"bytes":1e9}},
			{"sum":{"start":1.0,"seconds":0.5,"bytes":2e9}}]}}`, 24},
		{"a last report that is shorter", `{"server_output_json":{"intervals":[
			{"sum":{"start":0.5,"seconds":0.5,"bytes":1e9}},{"sum":{"start":1.0,"seconds":0.1,"bytes":0.2e9}}]}}`, 16},
		{"nothing but the warm-up", `{"server_output_json":{"intervals":[{"sum":{"start":0,"seconds":0.5,"bytes":1e9}}]}}`, -1},
		{"no report of the server's", `{"intervals":[]}`, -1},
		{"no JSON", `iperf3: error`, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Received([]byte(c.text))
			if (err != nil) != (c.want < 0) {
				t.Fatalf("error %v", err)
			}
			if err == nil && (got < c.want-0.01 || got > c.want+0.01) {
				t.Errorf("got %v Gbit/s, want %v", got, c.want)
			}
		})
	}
}

func TestTimesOfProgramsThatPacketsMeetAreAddedUp(t *testing.T) {
	before := []Times{{ns: 0, runs: 0}, {ns: 500, runs: 10}, {ns: 0, runs: 0}}
	after := []Times{{ns: 200_000, runs: 1000}, {ns: 100_500, runs: 1010}, {ns: 1e6, runs: 5}}
	// 200 and 100 ns, the clock's 20 off each; the third saw few of them
	if got := PerPacket(before, after, 1000, 20); got != 260 {
		t.Errorf("got %v ns, want 260", got)
	}
	if got := PerPacket(before, after, 0, 20); got != 0 {
		t.Errorf("without packets: %v", got)
	}
}

func TestAMissingProgramIsNamedWithItsPackage(t *testing.T) {
	err := Need(Program{"sh", "dash"}, Program{"no-such-program", "some-package"})
	if err == nil || !strings.Contains(err.Error(), "apt-get install some-package") || strings.Contains(err.Error(), "dash") {
		t.Errorf("got %v", err)
	}
}

func TestWhatAKilledBenchLeftIsSweptAndWhatALivingOneHasIsNot(t *testing.T) {
	needRoot(t)
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	names, dirs := map[string]bool{}, map[string]bool{}
	for pid, left := range map[int]bool{dead.Process.Pid: false, os.Getpid(): true, os.Getppid(): true} {
		s, err := netspace.Create(prefix + strconv.Itoa(pid) + "-sweep-l")
		if err != nil {
			t.Fatal(err)
		}
		names[s.Name] = left
		dir, err := os.MkdirTemp("", dirPrefix+strconv.Itoa(pid)+"-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		dirs[dir] = left
		t.Cleanup(func() { _ = netspace.Delete(s.Name) })
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, want := range names {
		found, err := netspace.List(name)
		if err != nil || (len(found) == 1) != want {
			t.Errorf("%s: found %v, %v, want that it is there: %v", name, found, err, want)
		}
	}
	for name, want := range map[string]bool{dirPrefix + "2147483647-x": true, dirPrefix + "2147483647": false, dirPrefix + "block-7": false} {
		if got := orphan(name, dirPrefix); got != want {
			t.Errorf("%s is an orphan: %v, want %v", name, got, want)
		}
	}
	for dir, want := range dirs {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s: %v, want that it is there: %v", dir, err, want)
		}
	}
}
