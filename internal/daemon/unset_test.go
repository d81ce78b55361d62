package daemon_test

// What of a file cannot be set keeps nothing else from working, and is a line of
// weft show health.

import (
	"encoding/json"
	"net"
	"strings"
	"testing"

	"weft/internal/lab/netspace/spacetest"
	"weft/internal/state"
)

// ailing returns the lines of weft show health that are not "working".
func (w *topology) ailing() (list []state.Health) {
	w.t.Helper()
	out, _ := w.weft("show", "health", "--json") // fails if a line is not "working"
	var all []state.Health
	if err := json.NewDecoder(strings.NewReader(out)).Decode(&all); err != nil {
		w.t.Fatalf("weft show health: %v: %s", err, out)
	}
	for _, h := range all {
		if h.Condition != state.Working {
			list = append(list, h)
		}
	}
	return list
}

// A device that comes late, as a USB adapter does at boot, is taken when it
// appears; everything else works before.
func TestADeviceThatIsMissingIsTakenWhenItAppears(t *testing.T) {
	late := usual() + "\n[interface.late]\naddresses = [\"192.0.2.77/24\"]\n"
	w := newTopology(t, late)
	r := w.start()
	w.pings(w.member, serverFrom6)
	list := w.ailing()
	if len(list) != 1 || list[0].Feature != "interface" || list[0].Name != "late" || list[0].Condition != state.NotWorking || !strings.Contains(list[0].Because, `"late"`) {
		t.Errorf("health: %+v", list)
	}
	// a reload is not refused for what was missing before it, but for another one
	w.write(strings.ReplaceAll(late, "[interface.wan]", "[interface.wan]\nmtu = 1400"))
	r.reload()
	if got := w.mtuOf("wan"); got != "1400" {
		t.Errorf("wan has an MTU of %s after the reload, want 1400:\n%s", got, r.log)
	}
	w.write(late + "[interface.later]\n")
	r.reload()
	if got := w.mtuOf("wan"); got != "1400" || !strings.Contains(r.log.String(), `no device \"later\"`) {
		t.Errorf("wan has an MTU of %s after a reload that names another missing device:\n%s", got, r.log)
	}
	w.write(late)
	r.reload()
	w.run(w.router, "ip link add late type veth peer name later")
	eventually(t, "the device has its address", func() bool { return strings.Contains(w.run(w.router, "ip -4 addr show late"), "192.0.2.77/24") })
	eventually(t, "health has no line", func() bool { return len(w.ailing()) == 0 })
	w.run(w.router, "ip link del late")
	eventually(t, "health says it again", func() bool { return len(w.ailing()) == 1 })
	w.pings(w.member, serverFrom6)
}

// What the kernel refuses is tried again, and blocks no later change.
func TestAStepThatFailsBlocksNoOther(t *testing.T) {
	// an address of IPv6 cannot be set while IPv6 is disabled on the device
	w := newTopology(t, usual()+"\n[interface.spare]\naddresses = [\"2001:db8:77::1/64\"]\n")
	w.run(w.router, "ip link add spare type veth peer name spare-peer")
	w.run(w.router, "sysctl -qw net.ipv6.conf.spare.disable_ipv6=1")
	r := w.start()
	w.pings(w.member, serverFrom6)
	list := w.ailing()
	if len(list) != 1 || !strings.Contains(list[0].Because, "2001:db8:77::1/64") || list[0].Remedy == "" {
		t.Fatalf("health: %+v\n%s", list, r.log)
	}
	w.write(strings.ReplaceAll(usual(), "[interface.wan]", "[interface.wan]\nmtu = 1400") + "\n[interface.spare]\naddresses = [\"2001:db8:77::1/64\"]\n")
	r.reload()
	if got := w.mtuOf("wan"); got != "1400" {
		t.Errorf("wan has an MTU of %s after the reload, want 1400:\n%s", got, r.log)
	}
	w.run(w.router, "sysctl -qw net.ipv6.conf.spare.disable_ipv6=0")
	eventually(t, "it is set, and health has no line", func() bool { return len(w.ailing()) == 0 })
	if out := w.run(w.router, "ip -6 addr show spare"); !strings.Contains(out, "2001:db8:77::1/64") {
		t.Errorf("spare has %s", out)
	}
}

// A guest's device that was moved away cannot be set right, and blocks no reload.
func TestAGuestsDeviceThatWasMovedBlocksNoReload(t *testing.T) {
	guest := "\n[bridge.guests]\nports = [{ interface = \"vm1\", kind = \"veth\" }]\n"
	w := newTopology(t, usual()+guest)
	r := w.start()
	w.pings(w.member, serverFrom6)
	elsewhere := spacetest.New(t, "elsewhere")
	w.run(w.router, "ip link set vm1-raw netns "+elsewhere.Name)
	w.write(strings.ReplaceAll(usual(), "[interface.wan]", "[interface.wan]\nmtu = 1400") + guest)
	r.reload()
	if got := w.mtuOf("wan"); got != "1400" {
		t.Errorf("wan has an MTU of %s after the reload, want 1400:\n%s", got, r.log)
	}
	w.pings(w.member, serverFrom6)
}

// A port that another program has keeps no packet from being forwarded; the
// metrics are there when the port is free.
func TestAMetricsPortThatIsTakenStopsNothing(t *testing.T) {
	w := newTopology(t, listening+usual())
	w.run(w.router, "ip link set lo up")
	var taken net.Listener
	if err := w.router.Do(func() (err error) { taken, err = net.Listen("tcp", "127.0.0.1:9100"); return err }); err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	w.start()
	w.pings(w.member, serverFrom6)
	list := w.ailing()
	if len(list) != 1 || list[0].Feature != "metrics" || !strings.Contains(list[0].Because, "address already in use") {
		t.Errorf("health: %+v", list)
	}
	taken.Close()
	eventually(t, "metrics are served", func() bool { return len(w.ailing()) == 0 })
	if n := w.metric(`weft_healthy{feature="nat64",name="main"}`); n != 1 {
		t.Errorf("weft_healthy is %v", n)
	}
}
