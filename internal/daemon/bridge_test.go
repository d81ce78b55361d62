package daemon_test

// A bridge in the router, whose ports are its ends of three cables:
//
//	member eth0 --- lan  router  wan --- eth0 server
//	guest, locked        bridge          uplink
//	other  eth0 --- vm
//	guest, not locked
//
// member, other and server have 10.9.0.2, .3 and .9; and 2001:db8:9::2, 3, 9.

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"weft/internal/lab/netspace"
	"weft/internal/lab/netspace/spacetest"
	"weft/internal/testbin"
)

const (
	memberMAC = "02:00:00:00:00:11"
	otherMAC  = "02:00:00:00:00:12"
	serverMAC = "02:00:00:00:00:01"
	bridgeMAC = "02:00:00:00:00:aa"
)

const bridging = `
[router]
forwarding = false
[bridge.guests]
mac = "` + bridgeMAC + `"
OPTIONS
ports = [
  { interface = "wan", role = "uplink" },
  { interface = "lan", macs = ["` + memberMAC + `"]ADDRESSES },
  PORT
]
`

const secondPort = `{ interface = "vm" },`

// bridged fills in what a bridge has beside its uplink and its first guest.
func bridged(options, port string) string {
	addresses := ""
	if strings.Contains(options, "neigh_suppress") {
		addresses = `, addresses = ["10.9.0.2", "2001:db8:9::2"]`
	}
	return strings.NewReplacer("OPTIONS", options, "PORT", port, "ADDRESSES", addresses).Replace(bridging)
}

type bridgedTopology struct {
	*topology
	other *netspace.Space
}

func newBridged(t *testing.T, toml string) bridgedTopology {
	t.Helper()
	w := bridgedTopology{newTopology(t, toml), spacetest.New(t, "other")}
	w.cable("vm", w.other)
	for i, host := range []*netspace.Space{w.member, w.other, w.server} {
		number := []int{2, 3, 9}[i]
		w.run(host, "ip link set eth0 address "+[]string{memberMAC, otherMAC, serverMAC}[i])
		w.run(host, fmt.Sprintf("ip addr add 10.9.0.%d/24 dev eth0", number))
		w.run(host, fmt.Sprintf("ip addr add 2001:db8:9::%d/64 dev eth0 nodad", number))
	}
	return w
}

// dropped returns how many frames a port dropped for a reason, by show bridges.
func (w bridgedTopology) dropped(port, reason string) int {
	w.t.Helper()
	count := func(drops any) (n int) {
		for _, d := range drops.([]any) {
			if row := d.(map[string]any); row["outcome"] == reason {
				n += int(row["frames"].(float64))
			}
		}
		return n
	}
	for _, b := range w.rows("bridges") {
		if b["device"] == port {
			return count(b["host_drops"])
		}
		for _, p := range b["ports"].([]any) {
			if row := p.(map[string]any); row["device"] == port {
				return count(row["drops"])
			}
		}
	}
	return 0
}

func (w bridgedTopology) isolated() {
	w.t.Helper()
	if w.reaches(w.other, "10.9.0.2") || w.reaches(w.member, "2001:db8:9::3") {
		w.t.Error("one guest reaches the other")
	}
}

func TestABridgeIsReloadedUnderTraffic(t *testing.T) {
	t.Parallel()
	w := newBridged(t, bridged("", ""))
	before := w.state()
	r := w.start()
	eventually(t, "the guest reaches the uplink", func() bool { return w.reaches(w.member, "10.9.0.9") })
	pings := w.ping(w.member, "10.9.0.9")
	for _, change := range []struct{ name, options, port string }{
		{"a port is added", "", secondPort},
		{"its options change", "", `{ interface = "vm", max_macs = 2, broadcast = 10, isolated = true, macs = ["` + otherMAC + `"] },`},
		{"the bridge's change", "multicast_snooping = false\nneigh_suppress = true", secondPort},
		{"the router takes part", "host = true", secondPort},
		{"and no more", "", secondPort},
	} {
		w.write(bridged(change.options, change.port))
		r.reload()
		w.planIsEmpty()
		eventually(t, change.name+": the second guest reaches the uplink", func() bool { return w.reaches(w.other, "10.9.0.9") })
		w.isolated()
	}
	w.write(bridged("", ""))
	r.reload()
	w.planIsEmpty()
	if w.reaches(w.other, "10.9.0.9") {
		t.Error("a port that was taken out still carries frames")
	}
	if out := pings(); lost(out) > 0 {
		t.Errorf("%d frames were lost meanwhile:\n%s", lost(out), out)
	}
	if n := w.dropped("lan", "drop-port-source") + w.dropped("lan", "drop-port-moved"); n != 0 {
		t.Errorf("%d frames of a guest that does nothing wrong were dropped", n)
	}
	w.write("[router]\nforwarding = false\n")
	r.reload()
	// IPv6 comes back on the ports, and its routes in another order
	if differ := differences(before, w.state()); differ != "" {
		t.Errorf("without bridges in the file there differs:\n%s", differ)
	}
}

// The addresses at a locked port are known: frames to an unknown address are
// for other ports, which get them.
func TestALockedPortGetsNoFramesForUnknownAddresses(t *testing.T) {
	t.Parallel()
	w := newBridged(t, bridged("", `{ interface = "vm", macs = ["`+otherMAC+`"] },`))
	w.start()
	eventually(t, "the bridge carries frames", func() bool { return w.reaches(w.other, "10.9.0.9") && w.reaches(w.member, "10.9.0.9") })
	for device, want := range map[string]string{"vm": " flood off ", "wan": " flood on "} {
		if out := w.run(w.router, "bridge -d link show dev "+device); !strings.Contains(out, want) {
			t.Errorf("%s does not have%s:\n%s", device, want, out)
		}
	}
}

func TestABridgeOutlivesItsDaemonAndIsAdopted(t *testing.T) {
	t.Parallel()
	w := newBridged(t, bridged("", secondPort))
	r := w.start()
	eventually(t, "guests reach the uplink", func() bool { return w.reaches(w.member, "10.9.0.9") && w.reaches(w.other, "10.9.0.9") })
	pings := w.ping(w.member, "10.9.0.9")
	r.kill()
	w.isolated()
	if out := w.mustWeft("show", "bridges"); !strings.Contains(out, memberMAC) {
		t.Errorf("without a daemon show bridges says\n%s", out)
	}
	// a device is removed and comes back while weft does not run: it waits for the
	// daemon
	w.run(w.router, "ip link del vm")
	w.cable("vm", w.other)
	w.run(w.other, "ip addr add 10.9.0.3/24 dev eth0")
	if w.reaches(w.other, "10.9.0.9") {
		t.Error("a device without guards is a port")
	}
	r = w.start()
	eventually(t, "it has joined", func() bool { return w.reaches(w.other, "10.9.0.9") })
	w.comesToRest()
	w.isolated()
	if out := pings(); lost(out) > 0 {
		t.Errorf("%d frames were lost:\n%s", lost(out), out)
	}
	r.kill()
	w.launch().await("READY=1")
	w.planIsEmpty()
}

func TestUnloadTakesBridgesAway(t *testing.T) {
	t.Parallel()
	made := `{ interface = "t1", kind = "tap" },
  { interface = "v1", kind = "veth" },
  { interface = "vm", offloads = false },`
	w := newBridged(t, bridged("neigh_suppress = true", made))
	before := w.state()
	r := w.start()
	if out := w.run(w.router, "ip -br link show master guests"); len(strings.Fields(out)) < 5*3 {
		t.Fatalf("the ports are\n%s", out)
	}
	r.stop()
	w.mustWeft("unload")
	if differ := differences(before, w.state()); differ != "" {
		t.Errorf("there differs:\n%s", differ)
	}
}

func TestAGuestCannotTakeAnothersAddress(t *testing.T) {
	t.Parallel()
	w := newBridged(t, bridged("host = true", secondPort+"\n"))
	w.start()
	w.run(w.router, "ip addr add 10.9.0.1/24 dev guests")
	attacker, uplink := w.frames(w.other), w.frames(w.server)
	eventually(t, "the bridge carries frames", func() bool { return w.reaches(w.server, "10.9.0.2") })
	for _, victim := range []struct{ name, mac string }{
		{"the uplink's router", serverMAC}, {"another guest", memberMAC}, {"the host itself", bridgeMAC},
	} {
		before := w.dropped("vm", "drop-port-moved")
		for range 10 {
			attacker.send(marked(everybody, victim.mac, "I am "+victim.name))
		}
		if n := w.sync(attacker, uplink, "I am "); n != 0 {
			t.Errorf("%d frames in the name of %s came through", n, victim.name)
		}
		if n := w.dropped("vm", "drop-port-moved") - before; n != 10 {
			t.Errorf("%s: %d of 10 were counted", victim.name, n)
		}
		for _, to := range []string{"10.9.0.2", "10.9.0.1"} {
			w.pings(w.server, to)
		}
	}
	// a guest that was first to use an address loses it to a port of a higher role
	const gateway = "02:00:00:00:00:77"
	attacker.send(marked(everybody, gateway, "first"))
	if n := w.sync(attacker, uplink, "first"); n != 1 {
		t.Errorf("%d frames from an unknown address passed, want 1", n)
	}
	w.run(w.server, "ip link set eth0 address "+gateway)
	eventually(t, "the gateway has its address", func() bool { return w.reaches(w.server, "10.9.0.2") })
	attacker.got()
	for range 5 {
		attacker.send(marked(everybody, gateway, "mine"))
	}
	if n := w.sync(attacker, uplink, "mine"); n != 0 {
		t.Errorf("%d frames in the gateway's name came through after it spoke", n)
	}
	w.run(w.member, "ip neigh flush all")
	w.pings(w.member, "10.9.0.9")
	w.pings(w.member, "10.9.0.1")
	for _, b := range attacker.got() {
		if b[0]&1 == 0 && !bytes.Equal(b[:6], mac(otherMAC)) {
			t.Errorf("the attacker gets what is for others: %x", b[:14])
		}
	}
}

func TestStormsAndTooManyAddressesEndAtThePort(t *testing.T) {
	// alone: rates are measured
	port := `{ interface = "vm", broadcast = 40, multicast = 40, unknown_unicast = 40, max_macs = 3 },`
	w := newBridged(t, bridged("", port))
	w.start()
	attacker, uplink, guest := w.frames(w.other), w.frames(w.server), w.frames(w.member)
	eventually(t, "the bridge carries frames", func() bool { return w.reaches(w.other, "10.9.0.9") && w.reaches(w.member, "10.9.0.9") })
	sent := 0
	for _, to := range []struct{ name, mac string }{
		{"broadcast", everybody}, {"multicast", "01:00:5e:01:02:03"}, {"unknown", "02:00:00:00:00:ee"},
	} {
		uplink.got()
		begin, before := time.Now(), w.dropped("vm", "drop-port-storm")
		const n = 400
		for range n {
			attacker.send(marked(to.mac, otherMAC, "storm of "+to.name))
		}
		came := w.sync(attacker, uplink, "storm of ")
		took := time.Since(begin)
		drops := w.dropped("vm", "drop-port-storm") - before
		// 5 in each window of 134 ms
		if most := 5 * (int(took/(134*time.Millisecond)) + 2); came > most || came == 0 {
			t.Errorf("%s: %d of %d came through in %s, want %d at most", to.name, came, n, took, most)
		}
		// the attacker's own kernel sends a few, too (MLD, RFC 3810)
		if more := came + drops - n; more < 0 || more > 3 {
			t.Errorf("%s: %d came through and %d were counted, of %d", to.name, came, drops, n)
		}
		sent += n
	}
	if n := guest.count("storm"); n != 0 {
		t.Errorf("the other guest got %d of it", n)
	}
	// what is addressed to who is known has no limit
	for range 300 {
		attacker.send(marked(serverMAC, otherMAC, "plain"))
	}
	if n := w.sync(attacker, uplink, "plain"); n != 300 {
		t.Errorf("%d of 300 frames to a known address came through", n)
	}
	// more addresses than it may have
	time.Sleep(200 * time.Millisecond) // a new window: storms are not what is tried now
	for i := range 20 {
		attacker.send(marked(serverMAC, fmt.Sprintf("02:00:00:00:77:%02x", i), "address"))
	}
	if n := w.sync(attacker, uplink, "address"); n > 2 {
		t.Errorf("frames from %d more addresses came through, want 2", n)
	}
	if n := w.dropped("vm", "drop-port-mac-limit"); n < 18 {
		t.Errorf("%d were counted, want 18", n)
	}
	w.pings(w.other, "10.9.0.9") // with its own address
}

func TestTheBridgeAnswersForAGuestAndAsksItNothing(t *testing.T) {
	t.Parallel()
	w := newBridged(t, bridged("neigh_suppress = true", secondPort))
	w.start()
	eventually(t, "the bridge carries frames", func() bool { return w.reaches(w.member, "10.9.0.9") && w.reaches(w.other, "10.9.0.9") })
	member, uplink := w.frames(w.member), w.frames(w.server)
	question := frame(everybody, serverMAC, 0x0806, arpBody(1, serverMAC, "10.9.0.9", "10.9.0.2"))
	want := append(mac(serverMAC), mac(memberMAC)...)
	solicit := neighbourSolicitation(serverMAC, "2001:db8:9::9", "2001:db8:9::2")
	for name, q := range map[string][]byte{"ARP": question, "neighbour discovery": solicit} {
		member.got()
		uplink.send(q)
		eventually(t, name+" is answered with the guest's address", func() bool {
			for _, b := range uplink.got() {
				if bytes.Equal(b[:6], want[:6]) && bytes.Equal(b[12:14], q[12:14]) && bytes.Contains(b[14:], mac(memberMAC)) {
					return true
				}
			}
			return false
		})
		for _, b := range member.got() {
			if bytes.Equal(b[12:], q[12:]) {
				t.Errorf("the question by %s was sent to the guest", name)
			}
		}
	}
	w.pings(w.server, "10.9.0.2")
	w.pings(w.server, "2001:db8:9::2")
	// a neighbour solicitation for an unknown address still arrives
	w.run(w.server, "ip neigh flush all")
	w.pings(w.server, "10.9.0.3")
	w.isolated()
}

func TestTheRouterIsReachedInItsVLANOnly(t *testing.T) {
	t.Parallel()
	ports := `{ interface = "vm", vlan = 20 },`
	w := newBridged(t, bridged("host = true\nhost_vlan = 20", ports))
	w.start()
	w.run(w.router, "ip addr add 10.9.0.1/24 dev guests")
	eventually(t, "the guest in the router's VLAN reaches it", func() bool { return w.reaches(w.other, "10.9.0.1") })
	if w.reaches(w.member, "10.9.0.1") || w.reaches(w.server, "10.9.0.1") {
		t.Error("the router is reached from another VLAN")
	}
	w.pings(w.member, "10.9.0.9")
	if w.reaches(w.other, "10.9.0.9") {
		t.Error("a guest reaches the uplink of another VLAN")
	}
	w.isolated()
}

func TestCheckTellsOfTheWaysThatTheHostHas(t *testing.T) {
	t.Parallel()
	w := newBridged(t, bridged("host = true", secondPort))
	said := func() string { return w.mustWeft("check", w.file) }
	if out := said(); strings.Contains(out, "ip_forward") || strings.Contains(out, "proxy_arp") {
		t.Errorf("it warns of what is not so:\n%s", out)
	}
	for _, line := range []string{
		"sysctl -q -w net.ipv4.ip_forward=1", "sysctl -q -w net.ipv4.conf.vm.proxy_arp=1", "ip addr add 192.0.2.1/24 dev vm",
	} {
		w.run(w.router, line)
	}
	out := said()
	_, refused := w.exec(w.other, "ip", "link", "add", "asked", "type", "bridge", "vlan_filtering", "1")
	if notified := strings.Contains(out, "this kernel's bridge has no VLAN filtering"); notified != (refused != nil) {
		t.Errorf("a bridge that filters VLANs: %v, and it says\n%s", refused, out)
	}
	for _, want := range []string{"net/ipv4/ip_forward is 1", "net/ipv4/conf/vm/proxy_arp is 1", "vm has the address 192.0.2.1/24", ": OK"} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
	w.write(bridged("host = true", secondPort+`
  { interface = "t1", kind = "tap", owner = "nobody", group = "no-such-group" },`))
	if out := said(); !strings.Contains(out, "this host has no group no-such-group: t1 cannot be made for it") || strings.Contains(out, "this host has no user") {
		t.Errorf("of a group that is not there it says\n%s", out)
	}
	w.write(bridged("host = true", secondPort))
	if out, err := w.exec(w.other, testbin.Weft(t), "check", w.file); err != nil || strings.Contains(out, "bridge-nf-call") {
		t.Errorf("on a host without any of the devices it says (%v)\n%s", err, out)
	}
	out = w.mustWeft("check", w.file, "--json")
	if !strings.Contains(out, "ip_forward") {
		t.Errorf("--json lacks them:\n%s", out)
	}
}
