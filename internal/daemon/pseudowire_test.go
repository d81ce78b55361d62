package daemon_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weft/internal/lab/netspace"
)

// wired is one end of a pseudowire over the cable between router and server.
const wired = `
[router]
forwarding = false
[interface.under]
device = %q
addresses = ["%s/24"]
[pseudowire.attic]
kind = "l2tpv3"
src = %[2]q
dst = %q
srcport = 1701
dstport = 1701
rx_session = 7
tx_session = 7
rx_cookie = %q
tx_cookie = %q
[interface.attic]
addresses = ["10.77.0.%d/24"]
`

func nearEnd(rx, tx string) string {
	return fmt.Sprintf(wired, "wan", "198.51.100.1", "198.51.100.9", rx, tx, 1)
}

func farEnd(rx, tx string) string {
	return fmt.Sprintf(wired, "eth0", "198.51.100.9", "198.51.100.1", rx, tx, 9)
}

const (
	aa = "0x00000000000000aa"
	bb = "0x00000000000000bb"
	cc = "0x00000000000000cc"
)

// newWired has weft at both ends: the router's is the one that is returned, the
// server's the world besides.
func newWired(t *testing.T) (near, far *topology, atNear, atFar *running) {
	near = newTopology(t, nearEnd(aa, bb))
	far = near.at(near.server, farEnd(bb, aa))
	atNear, atFar = near.start(), far.start()
	eventually(t, "the wire carries", func() bool { return near.reaches(near.router, "10.77.0.9") })
	return near, far, atNear, atFar
}

func TestACookieChangesUnderTraffic(t *testing.T) {
	t.Parallel()
	near, far, atNear, atFar := newWired(t)
	wrong := func() int { return near.counted("drop-pseudowire-cookie") }
	if n := wrong(); n != 0 {
		t.Errorf("%d frames were dropped for their cookie before it changed", n)
	}
	pings := near.ping(near.server, "10.77.0.1")
	near.write(nearEnd(cc, bb))
	atNear.reload()
	eventually(t, "frames with the old cookie are dropped", func() bool { return wrong() > 0 })
	if near.reaches(near.server, "10.77.0.1") {
		t.Error("a wrong cookie was let in")
	}
	far.write(farEnd(bb, cc))
	atFar.reload()
	eventually(t, "the new cookie is let in", func() bool { return near.reaches(near.server, "10.77.0.1") })
	before := wrong()
	near.pings(near.router, "10.77.0.9")
	if n := wrong(); n != before {
		t.Errorf("%d more frames were dropped for their cookie", n-before)
	}
	if out := pings(); !strings.Contains(out, " received") || strings.Contains(out, " 0 received") {
		t.Errorf("the pings that went on meanwhile:\n%s", out)
	}
	near.planIsEmpty()
	far.planIsEmpty()
}

func TestAPseudowireOutlivesItsDaemonAndIsAdopted(t *testing.T) {
	t.Parallel()
	near, _, atNear, _ := newWired(t)
	index := func() string {
		number, _, _ := strings.Cut(near.run(near.router, "ip -o link show attic"), ":")
		return number
	}
	before := index()
	pings := near.ping(near.server, "10.77.0.1")
	atNear.kill()
	near.pings(near.router, "10.77.0.9")
	atNear = near.start()
	if atNear.applied() {
		t.Errorf("it did not adopt what was there:\n%s", atNear.log.String())
	}
	near.planIsEmpty()
	if after := index(); after != before {
		t.Errorf("the interface was number %s, is %s", before, after)
	}
	near.pings(near.router, "10.77.0.9")
	if out := pings(); lost(out) > 0 {
		t.Errorf("%d frames were lost:\n%s", lost(out), out)
	}
}

// Nothing but netlink events tells of these changes: what is looked at all
// the time is what routers under way have said.
func TestAWayIsFollowedAsRoutesAndNeighboursChange(t *testing.T) {
	t.Parallel()
	near, _, _, _ := newWired(t)
	resolved := func() bool {
		rows := near.rows("pseudowires")
		return len(rows) == 1 && rows[0]["resolved"] == true
	}
	eventually(t, "the other end's link address is known", resolved)
	near.run(near.router, "ip route replace unreachable 198.51.100.9/32")
	eventually(t, "there is no way any more", func() bool { return !resolved() })
	near.run(near.router, "ip route del unreachable 198.51.100.9/32")
	eventually(t, "the way is back", func() bool { return near.reaches(near.router, "10.77.0.9") })
	// another link address: frames to the old one are not received
	near.run(near.server, "ip link set eth0 address 02:00:00:00:99:99")
	near.run(near.router, "ip neigh replace 198.51.100.9 lladdr 02:00:00:00:99:99 dev wan nud reachable")
	eventually(t, "frames go to the new link address", func() bool { return near.reaches(near.router, "10.77.0.9") })
}

func TestUnloadTakesPseudowiresAway(t *testing.T) {
	t.Parallel()
	near := newTopology(t, nearEnd(aa, bb))
	before := near.state()
	r := near.start()
	if out := near.run(near.router, "ip -br link"); !strings.Contains(out, "attic") {
		t.Fatalf("there is no pseudowire:\n%s", out)
	}
	r.stop()
	near.mustWeft("unload")
	if out := near.run(near.router, "ip -br link"); strings.Contains(out, "attic") || strings.Contains(out, "wire") {
		t.Errorf("devices are left:\n%s", out)
	}
	if after := near.state(); after != before {
		t.Errorf("there differs:\n%s", differences(before, after))
	}
}

// at is a world in which another host is the router.
func (w *topology) at(host *netspace.Space, toml string) *topology {
	w.t.Helper()
	other := &topology{t: w.t, member: w.member, router: host, server: w.router, file: filepath.Join(w.t.TempDir(), "weft.toml")}
	w.t.Cleanup(func() {
		if err := other.place().Remove(); err != nil {
			w.t.Error(err)
		}
	})
	other.write(toml)
	return other
}

// ping pings until the function that it gives is called, and one more has been
// answered; that function gives what it printed.
func (w *topology) ping(from *netspace.Space, to string) (end func() string) {
	w.t.Helper()
	var out safeBuffer
	c := exec.Command("ping", "-i", "0.05", "-W", "2", to)
	c.Stdout, c.Stderr = &out, &out
	if err := from.Start(c); err != nil {
		w.t.Fatal(err)
	}
	stop := sync.OnceValue(func() string {
		last, _ := answers(out.String())
		for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			if now, _ := answers(out.String()); now > last+1 {
				break
			}
		}
		_ = c.Process.Signal(unix.SIGINT) // it may have ended
		_ = c.Wait()                      // fails if answers are missing
		return out.String()
	})
	w.t.Cleanup(func() { c.Process.Kill(); stop() })
	return stop
}

var answered = regexp.MustCompile(`icmp_seq=(\d+) ttl`)

// answers reads what ping prints: the number of the last ping that was
// answered, and how many were.
func answers(out string) (last, number int) {
	seen := map[string]bool{}
	for _, m := range answered.FindAllStringSubmatch(out, -1) {
		seen[m[1]] = true
		if n, err := strconv.Atoi(m[1]); err == nil {
			last = max(last, n)
		}
	}
	return last, len(seen)
}

// lost returns how many pings were not answered before the last one that was:
// that is after what a test did, and others were under way when it was over.
func lost(out string) int {
	last, number := answers(out)
	if last == 0 {
		return 1
	}
	return last - number
}
