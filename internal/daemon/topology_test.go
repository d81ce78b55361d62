package daemon_test

// These tests run the program itself in network namespaces:
//
//	member eth0 --- lan router wan --- eth0 server
//	IPv6 only        (weft)            IPv4 only
//	2001:db8:1::2                      198.51.100.9
//
// The server is 64:ff9b:1::198.51.100.9 to the member, the member
// 198.51.100.2 to the server. They need root, and fail when as root something
// is missing.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weft/internal/feature/host"
	"weft/internal/lab/netspace"
	"weft/internal/lab/netspace/spacetest"
	"weft/internal/paths"
	"weft/internal/testbin"
)

const (
	serverFrom6 = "64:ff9b:1::198.51.100.9"
	memberFrom4 = "198.51.100.2"
)

const ends = `
[interface.lan]
addresses = ["2001:db8:1::1/64"]
%s
[interface.wan]
addresses = ["198.51.100.1/24"]
%s
`

const translator = `
[nat64.main]
mode = "stateless"
prefix = "64:ff9b:1::/96"
mappings = [{ ipv6 = "2001:db8:1::2", ipv4 = "198.51.100.2" }]
interfaces = ["lan", "wan"]
`

// usual is what most tests run; shortcut bypasses the stack in TC.
func usual() string  { return fmt.Sprintf(ends, "", "") + translator }
func bypass() string { return fmt.Sprintf(ends, "bypass = true", "bypass = true") + translator }

// world is the three namespaces.
type topology struct {
	t                      *testing.T
	member, router, server *netspace.Space
	file                   string // the router's weft.toml
}

// newTopology builds the namespaces and writes the configuration; weft does not
// run yet.
func newTopology(t *testing.T, toml string) *topology {
	t.Helper()
	w := &topology{t: t, member: spacetest.New(t, "member"), router: spacetest.New(t, "router"), server: spacetest.New(t, "server")}
	w.file = filepath.Join(t.TempDir(), "weft.toml")
	t.Cleanup(func() {
		if err := w.place().Remove(); err != nil {
			t.Error(err)
		}
	})
	w.cable("lan", w.member)
	w.cable("wan", w.server)
	w.run(w.member, "ip addr add 2001:db8:1::2/64 dev eth0 nodad")
	w.run(w.member, "ip route add default via 2001:db8:1::1")
	w.run(w.server, "ip addr add 198.51.100.9/24 dev eth0")
	w.write(toml)
	return w
}

// cable joins a device of the router with eth0 of a host.
func (w *topology) cable(device string, host *netspace.Space) {
	w.t.Helper()
	w.run(w.router, fmt.Sprintf("ip link add %s type veth peer name eth0 netns %s", device, host.Name))
	w.run(w.router, fmt.Sprintf("ip link set %s up", device))
	for _, c := range []string{"ip link set lo up", "ip link set eth0 up"} {
		w.run(host, c)
	}
}

func (w *topology) write(toml string) {
	w.t.Helper()
	if err := os.WriteFile(w.file, []byte(toml), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// try runs a command line in a namespace and gives what it printed.
func (w *topology) try(s *netspace.Space, line string) (string, error) {
	return w.exec(s, strings.Fields(line)...)
}

func (w *topology) exec(s *netspace.Space, argv ...string) (string, error) {
	var out bytes.Buffer
	c := exec.Command(argv[0], argv[1:]...)
	c.Stdout, c.Stderr = &out, &out
	if err := s.Start(c); err != nil {
		return "", err
	}
	err := c.Wait()
	// ip looks at all namespaces by name: one that a test beside this one deletes is no news
	return strings.ReplaceAll(out.String(), "Error: Peer netns reference is invalid.\n", ""), err
}

// run is try with a command that must succeed.
func (w *topology) run(s *netspace.Space, line string) string {
	w.t.Helper()
	out, err := w.try(s, line)
	if err != nil {
		w.t.Fatalf("%s in %s: %v\n%s", line, s.Name, err, out)
	}
	return out
}

// feed runs a command with text on its standard input.
func (w *topology) feed(s *netspace.Space, text, line string) {
	w.t.Helper()
	var out bytes.Buffer
	argv := strings.Fields(line)
	c := exec.Command(argv[0], argv[1:]...)
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(text), &out, &out
	if err := s.Start(c); err != nil {
		w.t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		w.t.Fatalf("%s in %s: %v\n%s", line, s.Name, err, &out)
	}
}

// weft runs the program in the router.
func (w *topology) weft(arguments ...string) (string, error) {
	if arguments[0] == "show" && !slices.Contains(arguments, "--json") && !slices.Contains(arguments, "--wide") {
		arguments = append(slices.Clone(arguments), "--wide") // no text is broken between lines
	}
	return w.exec(w.router, append([]string{testbin.Weft(w.t)}, arguments...)...)
}

// place is where weft keeps its things for the router.
func (w *topology) place() paths.Dirs {
	w.t.Helper()
	cookie, err := w.router.Cookie()
	if err != nil {
		w.t.Fatal(err)
	}
	return paths.Of(cookie)
}

// running is a `weft run` in the router.
type running struct {
	t        *testing.T
	topology *topology
	cmd      *exec.Cmd
	log      *safeBuffer
	notes    chan string // its notifications to systemd, a datagram each
	ended    chan struct{}
	exit     error // once ended is closed
}

// start starts `weft run` as systemd would, and waits until it is ready.
func (w *topology) start(environment ...string) *running {
	w.t.Helper()
	r := w.launch(environment...)
	r.await("READY=1")
	return r
}

// launch starts it and does not wait.
func (w *topology) launch(environment ...string) *running {
	w.t.Helper()
	c := exec.Command(testbin.Weft(w.t), "run", w.file)
	c.Env = append(os.Environ(), environment...)
	return w.begin(c)
}

// begin starts a program that notifies systemd.
func (w *topology) begin(c *exec.Cmd) *running {
	w.t.Helper()
	r := &running{t: w.t, topology: w, cmd: c, log: &safeBuffer{}, notes: make(chan string, 1000), ended: make(chan struct{})}
	socket := filepath.Join(w.t.TempDir(), "notify")
	conn, err := net.ListenPacket("unixgram", socket)
	if err != nil {
		w.t.Fatal(err)
	}
	c.Stdout, c.Stderr = r.log, r.log
	if c.Env == nil {
		c.Env = os.Environ()
	}
	c.Env = append(c.Env, "NOTIFY_SOCKET="+socket)
	if err := w.router.Start(r.cmd); err != nil {
		w.t.Fatal(err)
	}
	go func() {
		b := make([]byte, 4096)
		for {
			n, _, err := conn.ReadFrom(b)
			if err != nil {
				return
			}
			r.notes <- string(b[:n])
		}
	}()
	go func() {
		r.exit = r.cmd.Wait()
		close(r.ended)
	}()
	w.t.Cleanup(func() {
		r.kill()
		conn.Close()
	})
	return r
}

// patience is how long a test waits for what must happen.
const patience = time.Minute

// await waits for a note that begins with a prefix, passing over others, but for one
// that begins with what must not come before.
func (r *running) await(prefix string, before ...string) string {
	r.t.Helper()
	refuse := func(note string) {
		for _, p := range before {
			if strings.HasPrefix(note, p) {
				r.t.Fatalf("it says %s before %s\n%s", p, prefix, r.log)
			}
		}
	}
	late := time.After(patience)
	for {
		select {
		case note := <-r.notes:
			if strings.HasPrefix(note, prefix) {
				return note
			}
			refuse(note)
		case <-r.ended:
			// what it said last may still be on its way here
			select {
			case note := <-r.notes:
				if strings.HasPrefix(note, prefix) {
					return note
				}
				continue
			case <-time.After(100 * time.Millisecond):
			}
			r.t.Fatalf("it ended (%v) before it said %s\n%s", r.exit, prefix, r.log)
		case <-late:
			r.t.Fatalf("it did not say %s\n%s", prefix, r.log)
		}
	}
}

// reload has it read the file again and waits until it has.
func (r *running) reload() {
	r.t.Helper()
	r.signal(unix.SIGHUP)
	r.await("RELOADING=1")
	r.await("READY=1")
}

// status is what weft show status says of it.
func (r *running) status() host.Status {
	r.t.Helper()
	out, err := r.topology.weft("show", "status", "--json")
	var s host.Status
	if err == nil {
		err = json.Unmarshal([]byte(out), &s)
	}
	if err != nil || s.PID != r.cmd.Process.Pid {
		r.t.Fatalf("show status, of process %d: %v\n%s", r.cmd.Process.Pid, err, out)
	}
	return s
}

// applied reports whether it has changed anything.
func (r *running) applied() bool {
	r.t.Helper()
	return r.status().Steps > 0
}

func (r *running) signal(s unix.Signal) {
	r.t.Helper()
	if err := r.cmd.Process.Signal(s); err != nil {
		r.t.Fatal(err)
	}
}

// kill ends it as a crash would.
func (r *running) kill() {
	r.cmd.Process.Kill() // it may have ended already
	<-r.ended
}

// stop asks it to end and waits.
func (r *running) stop() {
	r.t.Helper()
	r.signal(unix.SIGTERM)
	select {
	case <-r.ended:
	case <-time.After(patience):
		r.t.Fatalf("it does not stop\n%s", r.log)
	}
	if r.exit != nil {
		r.t.Errorf("it ended with %v\n%s", r.exit, r.log)
	}
}

// eventually waits until what is asked is so.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not so: %s", what)
		}
	}
}

// planIsEmpty fails unless `weft plan` finds nothing to do.
func (w *topology) planIsEmpty() {
	w.t.Helper()
	out, err := w.weft("plan", w.file, "--json")
	if err != nil || !strings.HasSuffix(strings.TrimSpace(out), "[]") { // warnings come first
		w.t.Errorf("there is something to do (%v):\n%s", err, out)
	}
}

// comesToRest waits until there is nothing to do, after something that the daemon
// finds out by itself.
func (w *topology) comesToRest() {
	w.t.Helper()
	eventually(w.t, "weft plan finds nothing to do", func() bool {
		out, err := w.weft("plan", w.file, "--json")
		return err == nil && strings.HasSuffix(strings.TrimSpace(out), "[]")
	})
}

// rows reads what `weft show NOUN --json` says.
func (w *topology) rows(noun string) []map[string]any {
	w.t.Helper()
	out, err := w.weft("show", noun, "--json")
	if err != nil {
		w.t.Fatalf("show %s: %v\n%s", noun, err, out)
	}
	var rows []map[string]any
	if err := json.Unmarshal([]byte(out), &rows); err != nil {
		w.t.Fatalf("show %s: %v\n%s", noun, err, out)
	}
	return rows
}

// counted returns how many packets met an outcome, in all programs.
func (w *topology) counted(outcome string) (n int) {
	w.t.Helper()
	for _, row := range w.rows("counters") {
		if row["outcome"] == outcome {
			n += int(row["packets"].(float64))
		}
	}
	return n
}
