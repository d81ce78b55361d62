package trace

import (
	"encoding/hex"
	"os/exec"
	"strings"
	"testing"

	"weft/internal/state"
	"weft/internal/testbin"
)

const wired = `
[router]
forwarding = true
[interface.under]
device = "lan"
addresses = ["192.0.2.1/24"]
[interface.wire]
addresses = ["198.51.100.1/24"]
[pseudowire.wire]
kind = "l2tpv3"
src = "192.0.2.1"
dst = "192.0.2.2"
srcport = 1701
dstport = 1702
rx_session = 10
tx_session = 11
`

// An ARP request for the pseudowire's own address, packed up by the other end
// as of session 10: IPv4, UDP, L2TPv3, Ethernet, ARP.
const packedUp = "4500004e000040004011b69bc0000202c000020106a606a5003a0000000300000000000affffffffffff02000000009908060001080006040001020000000099c6336409000000000000c6336401"

func TestAPacketThroughAPseudowire(t *testing.T) {
	needRoot(t)
	whole, err := hex.DecodeString(packedUp)
	if err != nil {
		t.Fatal(err)
	}
	outsider := append([]byte(nil), whole...)
	outsider[20+8+7] = 12 // the session
	cut := append([]byte(nil), whole[:20+8+10]...)
	file := configFile(t, wired)
	results := runTrace(t, captureOf(t, true, whole, outsider, cut), "--config", file, "--in", "under")
	if len(results) != 3 {
		t.Fatalf("%d results: %+v", len(results), results)
	}
	for i, want := range []struct {
		verdict state.Verdict
		reason  string
		outputs int
	}{{state.Forward, "forward-pseudowire-decap", 1}, {state.Drop, "drop-pseudowire-unknown", 0}, {state.Drop, "drop-pseudowire-truncated", 0}} {
		r := results[i]
		if r.Verdict != want.verdict || r.Reason != want.reason || len(r.Outputs) != want.outputs {
			t.Errorf("packet %d: %+v, want %+v", i+1, r, want)
		}
	}
	// the kernel's answer to the request, in session 11
	reply := results[0].Outputs[0]
	for _, part := range []string{"c0000201c0000202", "06a506a6", "000300000000000b", "08060001080006040002"} {
		if reply.Interface != "under" || !strings.Contains(reply.Hex, part) {
			t.Errorf("no %s in %+v", part, reply)
		}
	}
}

func TestAnInterfaceThatWeftMakesTakesNoPackets(t *testing.T) {
	needRoot(t)
	var out, errs strings.Builder
	c := exec.CommandContext(t.Context(), testbin.Weft(t), "trace", "--config", configFile(t, wired), "--in", "wire")
	c.Stdin, c.Stdout, c.Stderr = captureOf(t, true, []byte{0x45}), &out, &errs
	if err := c.Run(); err == nil || !strings.Contains(errs.String(), "give the interface at which its packets arrive") {
		t.Errorf("%v: %s%s", err, out.String(), errs.String())
	}
}

// A bridge is up although no port of it is a device of this host, and routes lead out of
// none, even if the first interface of the file is one.
func TestAFileWithABridgeIsTraced(t *testing.T) {
	needRoot(t)
	const bridged = `
[interface.mesh]
device = "mesh0"

[interface.lan]
device = "br0"
addresses = ["192.0.2.1/24", "2001:db8:1::1/64"]

[interface.wan]
device = "up0"

[bridge.br0]
host = true
ports = [
  { interface = "mesh0", role = "infrastructure" },
  { interface = "port1", role = "infrastructure", vlan = 1 },
]
`
	var out, errs strings.Builder
	c := exec.CommandContext(t.Context(), testbin.Weft(t), "trace", "--config", configFile(t, bridged), "--in", "wan")
	c.Stdin, c.Stdout, c.Stderr = captureOf(t, true, []byte{0x45}), &out, &errs
	if err := c.Run(); err != nil || !strings.Contains(out.String(), "packet 1  in by wan") {
		t.Errorf("%v: %s%s", err, out.String(), errs.String())
	}
}
