package daemon_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"weft/internal/lab/netspace"
	"weft/internal/lab/probe"
)

// routedWires is a router between a network of its own and two pseudowires over
// one cable.
const routedWires = `
[interface.lan]
addresses = ["10.1.0.1/24"]
hook = %[1]q
[interface.wan]
addresses = ["198.51.100.1/24"]
hook = %[1]q
[pseudowire.attic]
kind = "l2tpv3"
src = "198.51.100.1"
dst = "198.51.100.9"
srcport = 1701
dstport = 1701
rx_session = 7
tx_session = 7
counter = true
bypass = %[2]v
[pseudowire.barn]
kind = "gretap"
src = "198.51.100.1"
dst = "198.51.100.9"
tos = "0x10"
bypass = %[2]v
[interface.attic]
addresses = ["10.77.0.1/24"]
[interface.barn]
addresses = ["10.78.0.1/24", "2001:db8:78::1/64"]
[route]
interfaces = ["lan", "wan", "attic", "barn"]
ipv4_prefixes = 1000
ipv6_prefixes = 1000
`

const farWires = `
[router]
forwarding = false
[interface.under]
device = "eth0"
[pseudowire.attic]
kind = "l2tpv3"
src = "198.51.100.9"
dst = "198.51.100.1"
srcport = 1701
dstport = 1701
rx_session = 7
tx_session = 7
counter = true
[pseudowire.barn]
kind = "gretap"
src = "198.51.100.9"
dst = "198.51.100.1"
[interface.attic]
addresses = ["10.77.0.9/24"]
[interface.barn]
addresses = ["10.78.0.9/24", "2001:db8:78::9/64"]
`

// newRoutedWires has weft at the other end, too, and a host behind the router.
func newRoutedWires(t *testing.T, hook string, bypass bool) *topology {
	w := newTopology(t, fmt.Sprintf(routedWires, hook, bypass))
	for _, host := range []*netspace.Space{w.member, w.server} {
		// XDP sends frames as they are, and to devices that receive by NAPI
		w.run(host, "ethtool -K eth0 tx off gro on")
	}
	w.run(w.member, "ip addr add 10.1.0.2/24 dev eth0")
	w.run(w.member, "ip route add default via 10.1.0.1")
	far := w.at(w.server, farWires)
	far.start()
	w.start()
	w.run(w.server, "ip route add 10.1.0.0/24 via 10.77.0.1")
	eventually(t, "both wires carry", func() bool {
		return w.reaches(w.member, "10.77.0.9") && w.reaches(w.router, "10.78.0.9") && w.reaches(w.router, "2001:db8:78::9")
	})
	return w
}

// onInterface is how many packets the interface of a pseudowire has counted.
func (w *topology) onInterface(device string) int {
	w.t.Helper()
	var links []struct {
		Stats64 struct{ Rx, Tx struct{ Packets int } }
	}
	if err := json.Unmarshal([]byte(w.run(w.router, "ip -s -j link show dev "+device)), &links); err != nil || len(links) != 1 {
		w.t.Fatalf("counters of %s: %v", device, err)
	}
	return links[0].Stats64.Rx.Packets + links[0].Stats64.Tx.Packets
}

func TestRoutedPacketsGoPastTheInterfaceOfAPseudowire(t *testing.T) {
	t.Parallel()
	for _, hook := range []string{"tc", "xdp"} {
		t.Run(hook, func(t *testing.T) {
			w := newRoutedWires(t, hook, true)
			eventually(t, "packets go straight in and out", func() bool {
				in, out := w.counted("forward-pseudowire-routed"), w.counted("forward-pseudowire-encap")
				return w.reaches(w.member, "10.77.0.9") && w.counted("forward-pseudowire-routed") > in && w.counted("forward-pseudowire-encap") > out
			})
			in, out := w.counted("forward-pseudowire-routed"), w.counted("forward-pseudowire-encap")
			ports := w.serve(w.server)
			w.move(w.member, "10.77.0.9", ports.TCP, probe.Download, 1<<20)
			w.move(w.member, "10.77.0.9", ports.TCP, probe.Upload, 1<<20)
			if more := w.counted("forward-pseudowire-routed") - in; more < 2 {
				t.Errorf("%d packets came straight out of the wire", more)
			}
			if more := w.counted("forward-pseudowire-encap") - out; more < 2 {
				t.Errorf("%d packets went straight into the wire", more)
			}
			for _, row := range w.rows("pseudowires") {
				if row["device"] == "attic" && (row["rx_packets"].(float64) < 10 || row["tx_packets"].(float64) < 10) {
					t.Errorf("weft counts %v", row)
				}
			}
			// what needs an answer takes the long way, and has it
			if text, err := w.try(w.member, "ping -c 1 -W 2 -M do -s 1460 10.77.0.9"); err == nil || !strings.Contains(text+w.run(w.member, "ip route get 10.77.0.9"), "mtu") {
				t.Errorf("no ICMP error for a packet that is too large: %v\n%s", err, text)
			}
			// the router's own go by the interface as ever
			before := w.onInterface("barn")
			w.pings(w.router, "10.78.0.9")
			if after := w.onInterface("barn"); after == before {
				t.Error("the router's own packets are not seen on the interface")
			}
			w.planIsEmpty()
		})
	}
}

func TestWithoutTheShortcutPacketsGoByTheInterface(t *testing.T) {
	t.Parallel()
	w := newRoutedWires(t, "xdp", false)
	before := w.onInterface("attic")
	w.pings(w.member, "10.77.0.9")
	if after := w.onInterface("attic"); after < before+2 {
		t.Errorf("the interface has counted %d packets", after-before)
	}
	if n := w.counted("forward-pseudowire-routed"); n != 0 {
		t.Errorf("%d packets went past it", n)
	}
}
