package trace

import (
	"encoding/json"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"weft/internal/state"
	"weft/internal/testbin"
	"weft/wire/l2tp"
	"weft/wire/ppp"
)

const lnsFile = `
[router]
forwarding = true
[interface.wan]
addresses = ["192.0.2.1/24"]
[interface.core]
addresses = ["198.51.100.1/24"]
[lns.isp]
listen = ["192.0.2.1"]
lacs = [{ address = "192.0.2.0/24" }]
users = [{ login = "alice", password = "x" }]
pools = [{ addresses = ["203.0.113.0/24"] }]
`

// theSessions are those of alice, at a LAC with the address 192.0.2.9, and one that
// is switched to a server behind core.
func theSessions() state.LNSTables {
	return state.LNSTables{
		LNSes: []state.LNS{{ID: 5, Name: "isp"}},
		Tunnels: []state.L2TPTunnel{{
			Local: 17, Remote: 1700, LocalAddr: netip.MustParseAddrPort("192.0.2.1:1701"), Peer: netip.MustParseAddrPort("192.0.2.9:1701"),
		}, {
			Local: 18, Remote: 1800, LocalAddr: netip.MustParseAddrPort("198.51.100.1:1701"), Peer: netip.MustParseAddrPort("198.51.100.77:1701"),
		}},
		Sessions: []state.L2TPSession{{
			Local: 100, Remote: 1000, Tunnel: 17, LNS: 5, IPv4: netip.MustParseAddr("203.0.113.7"), MTU: 1460,
			Prefixes: []netip.Prefix{netip.MustParsePrefix("10.9.0.0/24")}, // a framed route, outside of the pool
		}, {
			Local: 101, Remote: 1010, Tunnel: 17, LNS: 5, SwitchedTo: 102,
		}, {
			Local: 102, Remote: 1020, Tunnel: 18, LNS: 5, SwitchedTo: 101, Trusted: true,
		}},
	}
}

func sessionsFile(t *testing.T) string {
	t.Helper()
	text, err := json.Marshal(theSessions())
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "sessions.json")
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// inTunnel is what the LAC sends.
func inTunnel(t *testing.T, frame []byte) []byte {
	t.Helper()
	return datagram(t, 1701, 1701, l2tp.AppendData(nil, 17, 100, frame))
}

func datagram(t *testing.T, from, to layers.UDPPort, data []byte) []byte {
	t.Helper()
	ip := &layers.IPv4{Version: 4, TTL: 9, Protocol: layers.IPProtocolUDP, SrcIP: []byte{192, 0, 2, 9}, DstIP: []byte{192, 0, 2, 1}}
	udp := &layers.UDP{SrcPort: from, DstPort: to}
	_ = udp.SetNetworkLayerForChecksum(ip)
	return build(t, ip, udp, gopacket.Payload(data))
}

func TestASubscribersPacketsAreExplained(t *testing.T) {
	needRoot(t)
	sessions := sessionsFile(t)
	from := ppp.AppendFrame(nil, ppp.IPv4, udp4(t, "203.0.113.7", "198.51.100.9", 9, "x"))
	spoofed := ppp.AppendFrame(nil, ppp.IPv4, udp4(t, "203.0.113.8", "198.51.100.9", 9, "x"))
	lcp := ppp.AppendFrame(nil, ppp.LCP, ppp.Packet{Code: ppp.EchoRequest, ID: 1, Data: make([]byte, 4)}.Marshal())
	results := runTrace(t, captureOf(t, true, inTunnel(t, from), inTunnel(t, spoofed), inTunnel(t, lcp)),
		"--config", configFile(t, lnsFile), "--in", "wan", "--sessions", sessions)
	for i, want := range []struct {
		verdict state.Verdict
		reason  string
		out     string
	}{{state.Forward, "forward-decapsulated", "core"}, {state.Drop, "drop-spoofed", ""}, {state.Pass, "pass-l2tp-control", ""}} {
		r := results[i]
		out := ""
		if len(r.Outputs) > 0 {
			out = r.Outputs[0].Interface
		}
		if r.Verdict != want.verdict || r.Reason != want.reason || out != want.out && want.out != "" {
			t.Errorf("packet %d: %+v, want %+v", i+1, r, want)
		}
	}
	// control and all, to the other server
	results = runTrace(t, captureOf(t, true, datagram(t, 1701, 1701, l2tp.AppendData(nil, 17, 101, lcp))),
		"--config", configFile(t, lnsFile), "--in", "wan", "--sessions", sessions)
	if r := results[0]; r.Reason != "forward-switched" || len(r.Outputs) != 1 || r.Outputs[0].Interface != "core" || !strings.Contains(r.Outputs[0].Hex, "0002070803fcff03c0210901") {
		t.Errorf("onward: %+v", r)
	}
	for _, to := range []string{"203.0.113.7", "10.9.0.200"} {
		results = runTrace(t, captureOf(t, true, udp4(t, "198.51.100.9", to, 9, "x")),
			"--config", configFile(t, lnsFile), "--in", "core", "--sessions", sessions)
		if r := results[0]; r.Reason != "forward-to-subscriber" || len(r.Outputs) != 1 || r.Outputs[0].Interface != "wan" || !strings.Contains(r.Outputs[0].Hex, "000206a403e8ff030021") {
			t.Errorf("to %s: %+v", to, r)
		}
	}
	c := exec.CommandContext(t.Context(), testbin.Weft(t), "trace", "--config", configFile(t, lnsFile), "--in", "core", "--sessions", sessions)
	c.Stdin = captureOf(t, true, udp4(t, "198.51.100.9", "203.0.113.7", 9, "x"))
	out, err := c.CombinedOutput()
	if want := "L2TP tunnel 1700 session 1000 (session 100), PPP, inside: IPv4 198.51.100.9 > 203.0.113.7"; err != nil || !strings.Contains(string(out), want) {
		t.Errorf("%v: %q is not in\n%s", err, want, out)
	}
	// without sessions there is no subscriber
	results = runTrace(t, captureOf(t, true, inTunnel(t, from)), "--config", configFile(t, lnsFile), "--in", "wan", "--sessions", "none")
	if r := results[0]; r.Verdict == state.Forward {
		t.Errorf("without sessions: %+v", r)
	}
}

func TestL2TPIsDescribed(t *testing.T) {
	s := subscribersOf(theSessions(), map[uint16]string{100: "alice", 101: "bob"})
	for _, c := range []struct {
		name       string
		port       layers.UDPPort
		data       []byte
		want, less string
	}{
		{"data", 1701, l2tp.AppendData(nil, 17, 100, ppp.AppendFrame(nil, ppp.IPv4, udp4(t, "203.0.113.7", "198.51.100.9", 9, "x"))), "L2TP tunnel 17 session 100 (session 100 of alice), PPP, inside: IPv4 203.0.113.7 > 198.51.100.9 ttl 9 DF, UDP 1000 > 2000", ""},
		{"data to the peer", 1701, l2tp.AppendData(nil, 1700, 1000, ppp.AppendFrame(nil, ppp.LCP, []byte{9, 1, 0, 4})), "L2TP tunnel 1700 session 1000 (session 100 of alice), PPP LCP", ""},
		{"on its way to another server", 1701, l2tp.AppendData(nil, 1800, 1020, ppp.AppendFrame(nil, ppp.LCP, nil)), "(session 102 to the server of bob), PPP LCP", ""},
		{"of an unknown tunnel", 1701, l2tp.AppendData(nil, 3, 4, ppp.AppendFrame(nil, ppp.LCP, nil)), "L2TP tunnel 3 session 4, PPP LCP", ""},
		{"an acknowledgement", 1701, l2tp.Control{Tunnel: 17}.Marshal(), "L2TP tunnel 17 session 0, acknowledgement", ""},
		{"a message", 1701, l2tp.Control{Tunnel: 17, Body: l2tp.New(l2tp.Hello).Marshal()}.Marshal(), "L2TP tunnel 17 session 0, Hello", ""},
		{"no L2TP", 1701, []byte("hello, world"), "UDP 5000 > 1701", "L2TP"},
		{"another port", 53, l2tp.AppendData(nil, 17, 100, nil), "UDP 5000 > 53", "L2TP"},
	} {
		b := datagram(t, 5000, c.port, c.data)
		if got := describe(true, b, s); !strings.Contains(got, c.want) || c.less != "" && strings.Contains(got, c.less) {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}
