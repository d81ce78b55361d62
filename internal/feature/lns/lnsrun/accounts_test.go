package lnsrun

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"layeh.com/radius"
	"layeh.com/radius/rfc2866"

	"weft/internal/config"
	"weft/internal/feature/lns"
	"weft/internal/feature/ra"
	"weft/internal/paths"
	"weft/internal/runner"
	"weft/internal/state"
	"weft/internal/store"
	"weft/internal/subscriber"
)

// parse reads a file with the sections of subscribers.
func parse(text []byte) (*config.File, []state.Problem) {
	return config.Load("weft.toml", text, append(config.CoreSections(), lns.Feature.Sections...))
}

func accounting(t *testing.T, port int, more string) *config.File {
	t.Helper()
	f, problems := parse(fmt.Appendf(nil, `
[interface.wan]
[lns.isp]
listen = ["192.0.2.1"]
lacs = [{ address = "198.51.100.0/24" }]
radius = [{ server = "127.0.0.1:9", accounting = "127.0.0.1:%d", secret = "with RADIUS", timeout = "100ms", tries = 1 }]
%s`, port, more))
	if state.HasErrors(problems) {
		t.Fatal(problems)
	}
	return f
}

// process is one that begins with what another has left in dir.
func process(t *testing.T, dir string, f *config.File) (*running, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s := newSubscribers(ctx, runner.Doors{Log: slog.New(slog.DiscardHandler), Paths: paths.Dirs{Run: dir}, Replan: func() {}}, ra.Links{})
	files := newDisk(s.log, dir)
	k := files.open(f)
	s.begun = true
	s.serveAccounts(ctx, f)
	s.restore(ctx, k, time.Now())
	files.keep(s.unkept)
	s.unkept = nil
	return &running{s, files}, cancel
}

// running is a process whose loops are the test's own.
type running struct {
	*subscribers
	files *disk
}

// wait ends it.
func (r *running) wait() {
	r.tasks.Wait()
	r.finish(r.files)
	r.files.close()
}

// ends has sessions end, as carryOut does.
func ends(t *testing.T, s *running, ids ...string) {
	t.Helper()
	var list []*subscriber.Account
	for _, id := range ids {
		list = append(list, &subscriber.Account{Kind: subscriber.AccountStop, LNS: "isp", ID: id, Login: "alice", Started: time.Now().Add(-time.Hour), At: time.Now().Add(-time.Minute), Slow: subscriber.Traffic{UpBytes: 5000}})
	}
	reported, books := s.account(list)
	s.files.keep(books)
	s.notify(s.ctx, reported)
}

// killed returns what a process leaves that is killed now.
func killed(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "subscribers.db"))
	if err != nil {
		t.Fatal(err)
	}
	next := t.TempDir()
	if err := os.WriteFile(filepath.Join(next, "subscribers.db"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	return next
}

// The next process sends the records of sessions whose Stop no RADIUS server had
// acknowledged when the daemon was killed; it sends each of them once.
func TestAccountsOutliveAKilledDaemon(t *testing.T) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	f := accounting(t, conn.LocalAddr().(*net.UDPAddr).Port, "")
	dir := t.TempDir()
	first, end := process(t, dir, f)
	ends(t, first, "a1", "a2", "a3")
	next := killed(t, dir)
	end()
	first.wait()
	// one that is stopped leaves the same
	second, end := process(t, next, f)
	if n := second.accounts.clients["isp"].Waiting(); n != 3 {
		t.Fatalf("%d accounts wait after the first was killed", n)
	}
	end()
	second.wait()
	third, end := process(t, next, f)
	// the server is back
	received := map[string]int{}
	reported := make(chan *radius.Packet, 100)
	server := radius.PacketServer{
		SecretSource: radius.StaticSecretSource([]byte("with RADIUS")),
		Handler: radius.HandlerFunc(func(w radius.ResponseWriter, r *radius.Request) {
			_ = w.Write(r.Response(radius.CodeAccountingResponse))
			reported <- r.Packet
		}),
	}
	go func() { _ = server.Serve(conn) }()
	deadline := time.After(30 * time.Second)
	for len(received) < 3 {
		select {
		case p := <-reported:
			received[rfc2866.AcctSessionID_GetString(p)]++
			if late := rfc2866.AcctDelayTime_Get(p); late < 60 || late > 120 || rfc2866.AcctInputOctets_Get(p) != 5000 {
				t.Errorf("Acct-Delay-Time %d s, %d bytes", late, rfc2866.AcctInputOctets_Get(p))
			}
		case <-deadline:
			t.Fatalf("received only %v", received)
		}
	}
	for begun := time.Now(); third.accounts.clients["isp"].Waiting() > 0 && time.Since(begun) < 30*time.Second; {
		time.Sleep(time.Millisecond)
	}
	third.files.keep(third.accounts.acknowledged())
	fourth, _ := process(t, killed(t, next), f)
	if n := fourth.accounts.clients["isp"].Waiting(); n != 0 {
		t.Errorf("%d acknowledged records are sent again", n)
	}
	end()
	third.wait()
}

// A reload that changes the NAS-Identifier applies it to the next request; a reload
// that leaves it as it is keeps the client, with what it has learned of its servers.
func TestAReloadThatChangesOurNameForRADIUS(t *testing.T) {
	s, _ := process(t, t.TempDir(), accounting(t, 9, ""))
	first := s.accounts.clients["isp"]
	s.serveAccounts(s.ctx, accounting(t, 9, ""))
	if s.accounts.clients["isp"] != first {
		t.Error("the client is another one although nothing has changed")
	}
	s.serveAccounts(s.ctx, accounting(t, 9, `nas_identifier = "lns9"`))
	if got := s.accounts.clients["isp"].NAS(); got != "lns9" {
		t.Errorf("the NAS-Identifier is %q", got)
	}
}

// A section that was removed, or has lost its servers, still sends the records of its
// sessions; sessions that begin later send none to these servers.
func TestAccountsOfASectionThatIsNoMore(t *testing.T) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0") // it does not answer
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	f := accounting(t, conn.LocalAddr().(*net.UDPAddr).Port, "")
	none, _ := parse([]byte("[interface.wan]\n"))
	dir := t.TempDir()
	s, end := process(t, dir, f)
	ends(t, s, "a1")
	s.serveAccounts(s.ctx, none)
	ends(t, s, "a2")
	reported, _ := s.account([]*subscriber.Account{{Kind: subscriber.AccountStart, LNS: "isp", ID: "later", Started: time.Now().Add(time.Hour)}})
	if len(reported) != 0 {
		t.Error("a session that began without servers has a record")
	}
	if rows := s.radiusRows(); len(rows) != 1 || rows[0].Waiting != 2 {
		t.Errorf("of the servers it says %+v", rows)
	}
	s.serveAccounts(s.ctx, f)
	waiting := func() int { return s.accounts.clients["isp"].Waiting() }
	for begun := time.Now(); waiting() < 2 && time.Since(begun) < 30*time.Second; { // some are on their way to the server
		time.Sleep(time.Millisecond)
	}
	if n := waiting(); n != 2 {
		t.Errorf("%d accounts wait when the section is back", n)
	}
	end()
	s.wait()
	// the next process has no such section at first
	s, end = process(t, dir, none)
	s.serveAccounts(s.ctx, f)
	if n := s.accounts.clients["isp"].Waiting(); n != 2 {
		t.Errorf("%d accounts wait when the section is there again", n)
	}
	end()
	s.wait()
}

// Records that another build has stored are sent, and deleted when acknowledged.
func TestAccountsOfAnotherBuildAreTaken(t *testing.T) {
	dir := t.TempDir()
	// an old one would be given up at the first attempt
	end := func(id string) []byte {
		return fmt.Appendf(nil, `{"Account":{"Kind":2,"Access":"isp","ID":%q,"At":%q}}`, id, time.Now().Format(time.RFC3339))
	}
	file, err := store.OpenFleeting(filepath.Join(dir, "subscribers.db"))
	if err == nil {
		err = file.Apply([]store.Change{
			{Key: []byte(accountKey + "isp/0"), Value: end("a1")}, {Key: []byte(accountKey + "isp/1"), Value: []byte(`{`)},
			{Key: []byte(accountName(7)), Value: end("a2")},
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	s, stop := process(t, dir, accounting(t, 9, ""))
	defer stop()
	if n := s.accounts.clients["isp"].Waiting(); n != 2 {
		t.Errorf("%d accounts wait", n)
	}
	var keys []string
	if err := s.files.store.Each(func(k, _ []byte) error { keys = append(keys, string(k)); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(keys) != 2 || keys[0] == keys[1] || s.accounts.number < 7 {
		t.Errorf("kept are %q, the last number is %d", keys, s.accounts.number)
	}
}
