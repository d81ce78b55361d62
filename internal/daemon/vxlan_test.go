package daemon_test

import (
	"strings"
	"testing"
)

// A VXLAN pseudowire that joins a bridge takes the MTU of the other ports, and
// stays in the bridge: a device made again would not be in it.
func TestAVXLANPseudowireInABridgeHasItsMTU(t *testing.T) {
	t.Parallel()
	w := newTopology(t, `
[interface.wan]
addresses = ["198.51.100.1/24"]
[pseudowire.w]
kind = "vxlan"
vni = 7
src = "198.51.100.1"
dst = "198.51.100.9"
`)
	w.start()
	if got := w.mtuOf("w"); got != "1450" {
		t.Errorf("w has an MTU of %s, want 1450", got)
	}
	for _, line := range []string{"link add br0 type bridge", "link set lan master br0", "link set w master br0", "link set br0 up"} {
		w.run(w.router, "ip "+line)
	}
	eventually(t, "w has the MTU of lan", func() bool { return w.mtuOf("w") == "1500" })
	w.comesToRest()
	if out := w.run(w.router, "ip link show w"); !strings.Contains(out, "master br0") {
		t.Errorf("w left the bridge: %s", out)
	}
	w.run(w.router, "ip link set w nomaster")
	eventually(t, "w has its own MTU again", func() bool { return w.mtuOf("w") == "1450" })
}
