package daemon_test

import (
	"strings"
	"testing"
)

// mtuOf returns a device's MTU as ip prints it.
func (w *topology) mtuOf(device string) string {
	w.t.Helper()
	words := strings.Fields(w.run(w.router, "ip link show "+device))
	for i, word := range words {
		if word == "mtu" {
			return words[i+1]
		}
	}
	w.t.Fatalf("%s has no MTU: %v", device, words)
	return ""
}

func TestWhatAFileNoLongerSaysIsPutBack(t *testing.T) {
	t.Parallel()
	w := newTopology(t, strings.ReplaceAll(usual(), "[interface.wan]", "[interface.wan]\nmtu = 1400"))
	before := w.state()
	r := w.start()
	if got := w.mtuOf("wan"); got != "1400" {
		t.Errorf("wan has an MTU of %s, want 1400", got)
	}
	w.write(usual())
	r.reload()
	if got := w.mtuOf("wan"); got != "1500" {
		t.Errorf("wan has an MTU of %s after the file says nothing of it, want 1500 as before", got)
	}
	w.planIsEmpty()
	w.write("[router]\nforwarding = false\n")
	r.reload()
	w.planIsEmpty()
	if after := w.state(); after != before {
		t.Errorf("with a file that wants nothing there differs:\n%s", differences(before, after))
	}
	w.write(usual())
	r.reload()
	w.pings(w.member, serverFrom6)
	w.planIsEmpty()
}

func TestTheRoutersOwnAddressMayChangeInItsSubnet(t *testing.T) {
	t.Parallel()
	w := newTopology(t, usual())
	r := w.start()
	w.pings(w.member, serverFrom6)
	w.write(strings.ReplaceAll(usual(), "198.51.100.1/24", "198.51.100.77/24"))
	r.reload()
	w.planIsEmpty()
	if out := w.run(w.router, "ip -4 -br addr show wan"); !strings.Contains(out, "198.51.100.77/24") || strings.Contains(out, "198.51.100.1/24") {
		t.Errorf("wan has %s", out)
	}
	w.pings(w.member, serverFrom6)
	w.pings(w.server, memberFrom4)
}

func TestTheTranslatorsDeviceMayChangeItsName(t *testing.T) {
	t.Parallel()
	w := newTopology(t, usual())
	r := w.start()
	w.pings(w.member, serverFrom6)
	w.write(usual() + "device = \"siit0\"\n")
	r.reload()
	w.planIsEmpty()
	w.pings(w.member, serverFrom6)
	w.pings(w.server, memberFrom4)
	w.fragmentsPass()
	if out, err := w.try(w.router, "ip link show nat64-main"); err == nil {
		t.Errorf("the old device is still there: %s", out)
	}
}

func TestThePrefixMayChange(t *testing.T) {
	t.Parallel()
	w := newTopology(t, usual())
	r := w.start()
	w.pings(w.member, serverFrom6)
	w.write(strings.ReplaceAll(usual(), "64:ff9b:1::/96", "2001:db8:64:1::/64"))
	r.reload()
	w.planIsEmpty()
	w.pings(w.member, "2001:db8:64:1:c6:3364:900:0")
	if w.reaches(w.member, serverFrom6) {
		t.Error("the old prefix still leads to the server")
	}
}

func TestAMappingThatIsTakenOutEndsAtOnce(t *testing.T) {
	t.Parallel()
	w := newTopology(t, usual())
	r := w.start()
	w.pings(w.member, serverFrom6)
	w.write(strings.ReplaceAll(usual(), "2001:db8:1::2", "2001:db8:1::3"))
	r.reload()
	if w.reaches(w.member, serverFrom6) || w.reaches(w.server, memberFrom4) {
		t.Error("the mapping still works")
	}
	w.write(usual())
	r.reload()
	w.pings(w.member, serverFrom6)
}

// A setting of weft that is changed by hand is restored at the next event.
func TestWhatSomebodyElseUndoesIsDoneAgain(t *testing.T) {
	t.Parallel()
	w := newTopology(t, usual())
	w.start()
	for _, undo := range []string{
		"ip addr del 198.51.100.1/24 dev wan", "ip link set nat64-main down", "ip link set lan down",
	} {
		w.run(w.router, undo)
		eventually(t, "made good: "+undo, func() bool {
			out, err := w.weft("plan", w.file, "--json")
			return err == nil && strings.TrimSpace(out) == "[]"
		})
		w.pings(w.member, serverFrom6)
		w.pings(w.server, memberFrom4)
	}
}

func TestADeviceOfTheTranslatorsNameThatIsNotWeftsIsRefused(t *testing.T) {
	t.Parallel()
	w := newTopology(t, usual())
	w.run(w.router, "ip link add nat64-main type bridge")
	r := w.launch()
	<-r.ended
	if r.exit == nil || !strings.Contains(r.log.String(), "nat64-main already, which weft has not made") {
		t.Errorf("it ended with %v and said\n%s", r.exit, r.log)
	}
	if out := w.run(w.router, "ip -d link show nat64-main"); !strings.Contains(out, "bridge") {
		t.Errorf("the device is now\n%s", out)
	}
}
