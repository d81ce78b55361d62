package daemon_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// routed is a world in which the member has IPv4 too, and weft routes.
const routed = `
[interface.lan]
addresses = ["10.9.0.1/24", "2001:db8:1::1/64"]
[interface.wan]
addresses = ["198.51.100.1/24", "2001:db8:2::1/64"]
[route]
interfaces = ["lan", "wan"]
ipv4_prefixes = %d
ipv6_prefixes = 5000
`

// newRouted starts weft and makes the firewall drop all that it does not carry
// itself: a moment in which a packet is left to the stack is a packet lost.
func newRouted(t *testing.T) (*topology, *running) {
	w := newTopology(t, fmt.Sprintf(routed, 5000))
	w.run(w.member, "ip addr add 10.9.0.2/24 dev eth0")
	w.run(w.member, "ip route add default via 10.9.0.1")
	w.run(w.server, "ip route add default via 198.51.100.1")
	w.run(w.server, "ip addr add 2001:db8:2::9/64 dev eth0 nodad")
	w.run(w.server, "ip -6 route add default via 2001:db8:2::1")
	r := w.start()
	eventually(t, "weft routes both ways", func() bool {
		before := w.counted("forward-routed")
		return w.reaches(w.member, "198.51.100.9") && w.reaches(w.member, "2001:db8:2::9") && w.counted("forward-routed") >= before+4
	})
	w.feed(w.router, "add table inet t; add chain inet t c { type filter hook forward priority 0; policy drop; }", "nft -f -")
	return w, r
}

func TestRoutingGoesOnThroughKillRestartAndReload(t *testing.T) {
	t.Parallel()
	w, r := newRouted(t)
	f := w.floodTo("udp4", "198.51.100.9")
	r.kill()
	w.pings(w.member, "198.51.100.9")
	w.pings(w.member, "2001:db8:2::9")
	if out, err := w.weft("show", "fib"); err != nil || !strings.Contains(out, "daemon is down") || !strings.Contains(out, "Nodes:") {
		t.Errorf("show fib without a daemon: %v\n%s", err, out)
	}
	w.agrees("198.51.100.9", "neighbour")
	r = w.start()
	eventually(t, "the new daemon mirrors", func() bool { return strings.Contains(r.log.String(), "routes mirrored") })
	if r.applied() {
		t.Errorf("it did not adopt what was there:\n%s", r.log.String())
	}
	w.write(fmt.Sprintf(routed, 9000))
	r.reload()
	eventually(t, "tables of another size are filled", func() bool { return strings.Count(r.log.String(), "routes mirrored") == 2 })
	r.reload()
	w.agrees("10.9.0.2", "neighbour")
	w.agrees("10.9.0.1", "local")
	w.planIsEmpty()
	f.endWithoutLoss(t)
	if log := r.log.String(); strings.Count(log, "routes mirrored") != 2 {
		t.Errorf("a reload of the same file started over:\n%s", log)
	}
}

// agrees asks weft show route for an address.
func (w *topology) agrees(a, kind string) {
	w.t.Helper()
	out, err := w.weft("show", "route", a, "--json")
	var answer struct {
		Agree   bool
		Nexthop struct{ Kind string }
		Steps   []string
	}
	if err == nil {
		err = json.Unmarshal([]byte(out), &answer)
	}
	if err != nil || !answer.Agree || answer.Nexthop.Kind != kind || len(answer.Steps) == 0 {
		w.t.Errorf("show route %s: %v\n%s", a, err, out)
	}
}

func TestRoutesAreFollowedAndRulesLeaveThemToTheKernel(t *testing.T) {
	t.Parallel()
	w, r := newRouted(t)
	w.run(w.server, "ip addr add 203.0.113.9/32 dev lo")
	w.run(w.router, "ip route add 203.0.113.0/24 via 198.51.100.9")
	eventually(t, "a new route is followed", func() bool { return w.reaches(w.member, "203.0.113.9") })
	w.run(w.router, "ip route replace blackhole 203.0.113.0/24")
	eventually(t, "a blackhole is followed", func() bool {
		return !w.reaches(w.member, "203.0.113.9") && w.counted("drop-blackhole") > 0
	})
	w.run(w.router, "ip route replace 203.0.113.0/24 via 198.51.100.9")
	eventually(t, "the gateway is back", func() bool { return w.reaches(w.member, "203.0.113.9") })
	w.run(w.router, "ip rule add from 192.0.2.0/24 lookup 7")
	eventually(t, "the rule is noticed", func() bool {
		out, err := w.weft("show", "fib")
		return err == nil && strings.Contains(out, "all of IPv4: weft does not follow the rule") && !w.reaches(w.member, "203.0.113.9")
	})
	w.pings(w.member, "2001:db8:2::9") // the other family is not concerned
	w.run(w.router, "ip rule del from 192.0.2.0/24 lookup 7")
	eventually(t, "the rule is gone", func() bool { return w.reaches(w.member, "203.0.113.9") })
	for _, want := range []string{"routing is left to the kernel", "weft's own table again"} {
		if !strings.Contains(r.log.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, r.log)
		}
	}
	if out, err := w.weft("show", "fib", "--compare"); err != nil || !strings.Contains(out, " 0 differ") {
		t.Errorf("show fib --compare: %v\n%s", err, out)
	}
	if out, err := w.weft("show", "neighbours"); err != nil || !strings.Contains(out, "198.51.100.9") {
		t.Errorf("show neighbours: %v\n%s", err, out)
	}
	r.stop()
	if out, err := w.weft("unload"); err != nil {
		t.Errorf("unload: %v\n%s", err, out)
	}
	if w.reaches(w.member, "203.0.113.9") {
		t.Error("packets still go past the firewall after unload")
	}
}
