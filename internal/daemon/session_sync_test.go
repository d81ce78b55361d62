package daemon_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"testing"

	"weft/internal/bus/bustest"
	"weft/internal/lab/netspace"
	"weft/internal/lab/netspace/spacetest"
	"weft/internal/lab/probe"

	"os"
	"path/filepath"
	"strings"
)

// pair is two routers that share sessions, over a cable of their own:
//
//	left sync --- sync right
//
// Each has a translator with the same pool, and a member and a server at left.
type pair struct {
	*topology // left
	right     *topology
}

// spare is a second router with the same config as far as sessions go.
func newPair(t *testing.T) *pair {
	t.Helper()
	keys := bustest.NewAuthority(t)
	toml := func(name, peer string, own, other int) string {
		certificate, key := keys.Router(name)
		return statefulTOML(fmt.Sprintf(ends, "", ""), 65536) + fmt.Sprintf(`
[interface.sync]
addresses = ["10.9.9.%d/24"]

[session_sync]
name = %q
listen = "10.9.9.%d:4222"
peers = [{ name = %q, address = "10.9.9.%d:4222" }]
ca = %q
certificate = %q
key = %q
stream_mib = 4
`, own, name, own, peer, other, keys.File, certificate, key)
	}
	p := &pair{topology: newTopology(t, toml("left", "right", 1, 2))}
	p.right = &topology{t: t, member: p.member, server: p.server, router: spacetest.New(t, "spare")}
	p.right.file = filepath.Join(t.TempDir(), "weft.toml")
	t.Cleanup(func() {
		if err := p.right.place().Remove(); err != nil {
			t.Error(err)
		}
	})
	p.right.write(toml("right", "left", 2, 1))
	p.run(p.router, "ip link add sync type veth peer name sync netns "+p.right.router.Name)
	p.run(p.router, "ip link set sync up")
	p.right.idle()
	p.run(p.right.router, "ip link set sync up")
	p.run(p.server, "ip route add 192.0.2.1/32 via 198.51.100.1")
	return p
}

// idle gives a router cables that lead nowhere.
func (w *topology) idle() {
	w.t.Helper()
	for _, device := range []string{"lan", "wan"} {
		w.run(w.router, fmt.Sprintf("ip link add %s type veth peer name %s0", device, device))
		w.run(w.router, fmt.Sprintf("ip link set %s up", device))
		w.run(w.router, fmt.Sprintf("ip link set %s0 up", device))
	}
}

// failover reads `weft show session-sync`.
func (w *topology) failover() (f struct {
	Fresh bool
	Peers []map[string]any
	Sent  map[string]any
}) {
	w.t.Helper()
	out, err := w.weft("show", "session-sync", "--json")
	if err == nil {
		err = json.Unmarshal([]byte(out), &f)
	}
	if err != nil {
		w.t.Fatalf("show session-sync: %v\n%s", err, out)
	}
	return f
}

func (w *topology) sessions() int {
	w.t.Helper()
	return len(w.rows("nat-sessions"))
}

func (p *pair) together() {
	p.t.Helper()
	eventually(p.t, "both are up to date", func() bool { return !p.failover().Fresh && !p.right.failover().Fresh })
}

// move gives the cables of the member and the server to another router, as
// VRRP or BGP would.
func (p *pair) move(from, to *topology) {
	p.t.Helper()
	for device, host := range map[string]*netspace.Space{"lan": p.member, "wan": p.server} {
		p.run(from.router, "ip link del "+device)
		p.run(to.router, "ip link del "+device)
		to.cable(device, host)
	}
	from.idle()
	p.run(p.member, "ip addr add 2001:db8:1::2/64 dev eth0 nodad")
	p.run(p.member, "ip route add default via 2001:db8:1::1")
	p.run(p.server, "ip addr add 198.51.100.9/24 dev eth0")
	p.run(p.server, "ip route add 192.0.2.1/32 via 198.51.100.1")
}

func TestARunningConnectionGoesOnAtTheOtherRouter(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	left, right := p.start(), p.right.start()
	p.together()
	ports := p.serve(p.server)
	p.topology.move(p.member, serverFrom6, ports.TCP, probe.Upload, 1<<20)
	conn := p.dial(serverFrom6)
	say(t, conn, "one")
	eventually(t, "the other knows of every session", func() bool { return p.right.sessions() == p.sessions() && p.sessions() >= 2 })

	left.kill()
	if err := p.place().Remove(); err != nil { // with all that is pinned
		t.Fatal(err)
	}
	p.move(p.topology, p.right)
	say(t, conn, "two")
	if n := p.right.counted("drop-no-binding"); n != 0 {
		t.Errorf("%d packets found no binding", n)
	}
	before := p.right.sessions()

	// the first comes back with empty tables, and receives the sessions
	left = p.start()
	eventually(t, "the one that was away has all again", func() bool { return p.sessions() == before })
	p.together()
	right.kill()
	p.move(p.right, p.topology)
	say(t, conn, "three")
	left.stop()
}

func TestTheDaemonsOfBothRestartAndNothingIsLost(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	left, right := p.start(), p.right.start()
	p.together()
	conn := p.dial(serverFrom6)
	say(t, conn, "one")
	eventually(t, "the other knows", func() bool { return p.right.sessions() == 1 })
	left.kill()
	p.pings(p.member, serverFrom6) // while weft does not run
	left = p.start()
	eventually(t, "the other learns what happened meanwhile", func() bool { return p.right.sessions() == 2 })
	right.kill()
	right = p.right.start()
	p.together()
	say(t, conn, "two")
	if l, r := p.sessions(), p.right.sessions(); l != 2 || r != 2 {
		t.Errorf("%d sessions here, %d there", l, r)
	}
	left.stop()
	right.stop()
}

func TestReloadTurnsSharingOnAndOff(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	shared, err := os.ReadFile(p.file)
	if err != nil {
		t.Fatal(err)
	}
	p.write(statefulTOML(fmt.Sprintf(ends, "", ""), 65536) + "[interface.sync]\naddresses = [\"10.9.9.1/24\"]\n")
	left := p.start()
	p.right.start()
	conn := p.dial(serverFrom6)
	say(t, conn, "one")
	if out, err := p.weft("show", "session-sync"); err == nil {
		t.Errorf("it shares: %s", out)
	}
	p.write(string(shared))
	left.reload()
	eventually(t, "what was there before is shared", func() bool { return p.right.sessions() == 1 })
	say(t, conn, "two")
	p.write(statefulTOML(fmt.Sprintf(ends, "", ""), 65536))
	left.reload()
	say(t, conn, "three")
	if out, err := p.weft("show", "session-sync"); err == nil {
		t.Errorf("it shares still: %s", out)
	}
}

// dial opens a TCP connection from the member to an echo server.
func (w *topology) dial(to string) net.Conn {
	w.t.Helper()
	w.echo(w.server, "tcp4", ":7777")
	var conn net.Conn
	eventually(w.t, "the connection opens", func() bool {
		err := w.member.Do(func() (err error) {
			conn, err = net.Dial("tcp6", net.JoinHostPort(to, "7777"))
			return err
		})
		return err == nil
	})
	w.t.Cleanup(func() { conn.Close() })
	return conn
}

// say writes a word and wants it back.
func say(t *testing.T, conn net.Conn, word string) {
	t.Helper()
	if _, err := conn.Write([]byte(word)); err != nil {
		t.Fatalf("say %s: %v", word, err)
	}
	b := make([]byte, len(word))
	got := make(chan error, 1)
	go func() {
		_, err := io.ReadFull(conn, b)
		got <- err
	}()
	eventually(t, "the answer to "+word, func() bool {
		select {
		case err := <-got:
			if err != nil || string(b) != word {
				t.Fatalf("said %s, heard %q, %v", word, b, err)
			}
			return true
		default:
			return false
		}
	})
}

// An operator's cluster that cannot be used is reported by check, by show and in the
// log; packets are translated all the same.
func TestForwardingGoesOnWithoutTheCluster(t *testing.T) {
	t.Parallel()
	credentials := filepath.Join(t.TempDir(), "nats.creds")
	w := newTopology(t, statefulTOML(fmt.Sprintf(ends, "", ""), 65536)+fmt.Sprintf(`
[session_sync]
name = "left"
peers = [{ name = "right" }]
cluster = ["nats://127.0.0.1:4222"]
credentials = %q
`, credentials))
	w.run(w.server, "ip route add 192.0.2.1/32 via 198.51.100.1")
	w.run(w.router, "ip link set lo up")
	if out, err := w.weft("check", w.file); err != nil || !strings.Contains(out, "warning: session_sync.credentials: open "+credentials) {
		t.Errorf("check says %v:\n%s", err, out)
	}
	r := w.start()
	w.pings(w.member, serverFrom6)
	said := func(what string) {
		t.Helper()
		var out string
		defer func() {
			if t.Failed() {
				t.Log(out)
			}
		}()
		eventually(t, "show says "+what, func() (ok bool) {
			var err error
			out, err = w.weft("show", "session-sync")
			return err == nil && strings.Contains(out, what)
		})
	}
	said("read credentials: open " + credentials)
	if err := os.WriteFile(credentials, []byte("nothing of use"), 0o600); err != nil {
		t.Fatal(err)
	}
	said("not a .creds file") // read again, without a reload
	if out, err := w.weft("check", w.file); err != nil || !strings.Contains(out, "not a .creds file") {
		t.Errorf("check says %v:\n%s", err, out)
	}
	w.write(strings.Replace(w.read(), fmt.Sprintf("credentials = %q\n", credentials), "", 1))
	r.reload()
	said("nats://127.0.0.1:4222: nats: no servers available for connection (no server answers at this address)")
	w.pings(w.member, serverFrom6)
	if log := r.log.String(); !strings.Contains(log, "cannot read the sessions of peer") || !strings.Contains(log, credentials) {
		t.Errorf("the log has not got it:\n%s", log)
	}
	r.stop()
}

func (w *topology) read() string {
	w.t.Helper()
	text, err := os.ReadFile(w.file)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(text)
}
