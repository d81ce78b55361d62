package daemon_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"weft/internal/lab/netspace/spacetest"
)

// The uplink of the router has its address and its default route by router
// advertisements, which are weft's own, from the other side.
func advertisedTopology(t *testing.T, toml string) (w, far *topology) {
	t.Helper()
	w = newTopology(t, toml)
	far = &topology{t: t, router: w.server, file: filepath.Join(t.TempDir(), "weft.toml")}
	t.Cleanup(func() {
		if err := far.place().Remove(); err != nil {
			t.Error(err)
		}
	})
	far.write("[interface.eth0]\naddresses = [\"2001:db8:77::1/64\"]\n[ra.eth0]\nmax_interval = \"4s\"\n")
	far.start()
	eventually(t, "the uplink has a default route by router advertisements", w.hasRA("wan"))
	return w, far
}

func (w *topology) hasRA(device string) func() bool {
	return func() bool {
		routes := w.run(w.router, "ip -6 route show default dev "+device)
		addresses := w.run(w.router, "ip -6 -o addr show dev "+device+" scope global -tentative")
		return strings.Contains(routes, "proto ra") && strings.Contains(addresses, "2001:db8:77:")
	}
}

func TestForwardingKeepsWhatRouterAdvertisementsGave(t *testing.T) {
	w, _ := advertisedTopology(t, "[interface.lan]\naddresses = [\"192.0.2.1/24\"]\n")
	before := w.run(w.router, `sysctl -a -r ^net\.ipv[46]\.(conf|ip_forward)`)
	r := w.start()
	if !w.hasRA("wan")() {
		t.Errorf("the default route or the address of the uplink is gone:\n%s", w.run(w.router, "ip -6 route"))
	}
	w.run(w.router, "ping -6 -c 1 -W 5 2001:db8:77::1")
	w.planIsEmpty()

	// an uplink that comes later is served by router advertisements, too
	late := spacetest.New(t, "late")
	w.run(w.router, fmt.Sprintf("ip link add late type veth peer name eth0 netns %s", late.Name))
	eventually(t, "late takes router advertisements", func() bool {
		return strings.TrimSpace(w.run(w.router, "sysctl -n net.ipv6.conf.late.accept_ra")) == "2"
	})
	w.run(w.router, "ip link del late")

	// killed, and another process unloads
	r.kill()
	if !w.hasRA("wan")() {
		t.Error("the default route is gone with the daemon")
	}
	if out, err := w.weft("unload"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if after := w.run(w.router, `sysctl -a -r ^net\.ipv[46]\.(conf|ip_forward)`); after != before {
		t.Errorf("the settings differ:\n%s", differences(before, after))
	}
	if !w.hasRA("wan")() {
		t.Errorf("the default route or the address of the uplink is gone after unload:\n%s", w.run(w.router, "ip -6 route"))
	}
}

// Where weft advertises, or the file has a subnet, another router's
// advertisements are none of this router's business, unless it lives by them.
func TestAdvertisementsAreTakenOnlyWhereTheHostIsNoRouterOfTheLink(t *testing.T) {
	w, _ := advertisedTopology(t, "[interface.lan]\naddresses = [\"2001:db8:1::1/64\"]\n[interface.wan]\n[ra.wan]\nlifetime = \"0s\"\n[ra.lan]\n")
	w.start()
	for device, want := range map[string]string{"wan": "2", "lan": "1"} {
		if got := strings.TrimSpace(w.run(w.router, "sysctl -n net.ipv6.conf."+device+".accept_ra")); got != want {
			t.Errorf("accept_ra of %s is %s, want %s", device, got, want)
		}
	}
	if !w.hasRA("wan")() {
		t.Error("the default route of the uplink is gone")
	}
}

// A host that has forwarded already takes no advertisements where accept_ra is 1:
// weft does not begin to.
func TestAHostThatForwardsAlreadyIsLeftAsItIs(t *testing.T) {
	w := newTopology(t, "[interface.lan]\naddresses = [\"192.0.2.1/24\"]\n")
	w.run(w.router, "sysctl -w net.ipv6.conf.all.forwarding=1")
	w.start()
	if got := strings.TrimSpace(w.run(w.router, "sysctl -n net.ipv6.conf.wan.accept_ra")); got != "1" {
		t.Errorf("accept_ra of wan is %s, want 1", got)
	}
}
