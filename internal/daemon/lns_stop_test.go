package daemon_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"layeh.com/radius"
	"layeh.com/radius/rfc2866"

	"weft/internal/testbin"
)

// concentrator is a router with one section of subscribers, for a box in the
// member's place.
const concentrator = `
[router]
forwarding = true
[interface.lan]
addresses = ["2001:db8:1::1/64"]
[interface.wan]
addresses = ["198.51.100.1/24"]
[lns.isp]
listen = ["2001:db8:1::1"]
lacs = [{ address = "2001:db8:1::/64", secret = "between us" }]
users = [{ login = "alice", password = "wonderland" }]
pools = [{ addresses = ["203.0.113.0/24"] }]
prefixes = ["2001:db8:1000::/48"]
radius = [{ server = "198.51.100.9:1812", secret = "with RADIUS", timeout = "200ms", tries = 1 }]
`

// box runs a member's weft, which tries to set up its session every second.
func (w *topology) box() *exec.Cmd {
	w.t.Helper()
	file := filepath.Join(w.t.TempDir(), "box.toml")
	text := `
[interface.eth0]
addresses = ["2001:db8:1::2/64"]
[l2tp_client.isp]
server = "2001:db8:1::1"
secret = "between us"
login = "alice"
password = "wonderland"
mru = 1440
retry = "1s"
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	c := exec.Command(testbin.Weft(w.t), "run", file)
	if err := w.member.Start(c); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	return c
}

// session waits until alice has one that is not the one before, and gives its name
// in accounting.
func (w *topology) session(before string) (id string) {
	w.t.Helper()
	eventually(w.t, "alice has a session", func() bool {
		for _, row := range w.rows("subscribers") {
			if row["login"] == "alice" && row["state"] == "up" && row["id"] != before {
				id = row["id"].(string)
			}
		}
		return id != ""
	})
	return id
}

// waiting returns how many accounts no RADIUS server has taken.
func (w *topology) waiting() int {
	w.t.Helper()
	for _, row := range w.rows("radius") {
		return int(row["accounts_waiting"].(float64))
	}
	return -1
}

// The Stop of a session that ended while no RADIUS server was reachable is sent when
// one is back, though the daemon was killed in between; and only once.
func TestTheEndOfASessionOutlivesAKilledDaemon(t *testing.T) {
	t.Parallel()
	w := newTopology(t, concentrator)
	r := w.start()
	w.box()
	first := w.session("")
	if out, err := w.weft("kick", "alice"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	second := w.session(first)
	if n := w.waiting(); n < 3 { // the beginning and the end of one, the beginning of the other
		t.Errorf("%d accounts wait for RADIUS", n)
	}
	r.kill()
	r = w.start()
	if n := w.waiting(); n < 3 {
		t.Errorf("%d accounts wait for RADIUS after the daemon was killed", n)
	}
	if id := w.session(""); id != second {
		t.Errorf("the session is %s, and was %s", id, second)
	}
	var mu sync.Mutex
	var received []string
	late := map[string]bool{}
	w.books(func(p *radius.Packet) {
		mu.Lock()
		defer mu.Unlock()
		one := rfc2866.AcctStatusType_Get(p).String() + " " + rfc2866.AcctSessionID_GetString(p)
		received = append(received, one)
		if by := rfc2866.AcctAuthentic_Get(p); by != rfc2866.AcctAuthentic_Value_Local && !strings.HasPrefix(one, "Accounting-On") {
			t.Errorf("%s says that alice was let in by %v", one, by)
		}
		late[one] = rfc2866.AcctDelayTime_Get(p) > 0
	})
	eventually(t, "all accounting records are acknowledged", func() bool { return w.waiting() == 0 })
	if out, err := w.weft("kick", "alice"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	third := w.session(second)
	r.kill() // acknowledged records are not sent again
	w.start()
	w.session("")
	if out, err := w.weft("kick", "alice"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	eventually(t, "RADIUS receives the Stop of the third session", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return strings.Contains(strings.Join(received, "\n"), "Stop "+third)
	})
	mu.Lock()
	defer mu.Unlock()
	order := map[string]string{}
	for _, one := range received {
		kind, id, _ := strings.Cut(one, " ")
		order[id] += kind + " "
	}
	for _, id := range []string{first, second, third} {
		if order[id] != "Start Stop " {
			t.Errorf("RADIUS heard of session %s: %s\n%s", id, order[id], strings.Join(received, "\n"))
		}
	}
	if !late["Stop "+first] {
		t.Error("the Stop of the first session has no Acct-Delay-Time")
	}
}
