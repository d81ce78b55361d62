package natsbus_test

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"weft/internal/bus"
	"weft/internal/bus/bustest"
	"weft/internal/bus/natsbus"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// freePort returns a port of a loopback address that no other process uses: it stays free
// until this process opens it.
func freePort(t *testing.T) netip.AddrPort {
	t.Helper()
	pid := os.Getpid()
	l, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 64+pid>>16&63, pid>>8&255, pid&255))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return netip.MustParseAddrPort(l.Addr().String())
}

// settings of a router with the keys of an authority.
func settings(t *testing.T, a *bustest.Authority, name string, listen netip.AddrPort, peers ...bus.Peer) bus.Settings {
	t.Helper()
	certificate, key := a.Router(name)
	return bus.Settings{
		Name: name, Listen: listen, Keys: bus.Keys{CA: a.File, Certificate: certificate, Key: key},
		Peers: peers, Dir: filepath.Join(t.TempDir(), "bus"), Bytes: 1 << 20,
	}
}

func open(t *testing.T, s bus.Settings) *natsbus.Bus {
	t.Helper()
	b := natsbus.Open(t.Context(), s, quiet())
	t.Cleanup(b.Close)
	return b
}

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// await passes over events until one is as wanted.
func await(t *testing.T, b *natsbus.Bus, what string, is func(bus.Event) bool) bus.Event {
	t.Helper()
	late := time.After(patience)
	var last string
	for {
		select {
		case e := <-b.Events():
			if is(e) {
				return e
			}
			if e.Left != nil {
				last = fmt.Sprint(e.Left.Err)
			}
		case <-late:
			t.Fatalf("it did not happen that %s (last trouble: %s)", what, last)
		}
	}
}

func opened(e bus.Event) bool { return e.Opened != nil }
func joined(e bus.Event) bool { return e.Joined != nil }
func left(e bus.Event) bool   { return e.Left != nil }

func publish(t *testing.T, b *natsbus.Bus, text string) {
	t.Helper()
	if err := b.Publish([]byte(text)); err != nil {
		t.Fatal(err)
	}
}

func says(text string) func(bus.Event) bool {
	return func(e bus.Event) bool { return e.Message != nil && string(e.Message.Data) == text }
}

// two gives routers that read each other.
func two(t *testing.T) (a, b *natsbus.Bus, settingsB bus.Settings) {
	t.Helper()
	keys := bustest.NewAuthority(t)
	atA, atB := freePort(t), freePort(t)
	a = open(t, settings(t, keys, "a", atA, bus.Peer{Name: "b", Address: atB}))
	await(t, a, "a opens", opened)
	settingsB = settings(t, keys, "b", atB, bus.Peer{Name: "a", Address: atA})
	b = open(t, settingsB)
	await(t, b, "b reads a", joined)
	await(t, a, "a reads b", joined)
	return a, b, settingsB
}

func TestEachReadsWhatTheOtherWritesAndMayAsk(t *testing.T) {
	a, b, _ := two(t)
	for i := range 500 {
		publish(t, a, fmt.Sprint(i))
	}
	for i := range 500 {
		e := await(t, b, fmt.Sprintf("message %d comes", i), func(e bus.Event) bool { return e.Message != nil })
		if string(e.Message.Data) != fmt.Sprint(i) || e.Message.Missed {
			t.Fatalf("message %d is %q, missed %v", i, e.Message.Data, e.Message.Missed)
		}
	}
	if err := b.Ask("a"); err != nil {
		t.Fatal(err)
	}
	await(t, a, "a is asked by b", func(e bus.Event) bool { return e.Asked != nil && e.Asked.Peer == "b" })
	if s := a.Status(t.Context()); !s.Open || s.Messages != 500 || s.Clients != 1 || s.Bytes == 0 {
		t.Errorf("status %+v", s)
	}
}

func TestAPeerThatGoesAndComesBack(t *testing.T) {
	a, b, s := two(t)
	b.Close()
	await(t, a, "a sees b go", left)
	publish(t, a, "while b is away") // a does not wait for b
	b = open(t, s)
	e := await(t, b, "b reads a again", joined)
	if e.Joined.Seamless {
		t.Error("a new process thinks that it has missed nothing")
	}
	if e = await(t, a, "a reads b again", joined); e.Joined.Seamless {
		t.Error("the stream is another, and a thinks that it goes on")
	}
	publish(t, b, "hello")
	await(t, a, "b's message comes", says("hello"))
	publish(t, a, "hello too")
	await(t, b, "a's message comes", says("hello too"))
}

func TestTheStreamHasItsBoundAndWhoIsTooSlowIsTold(t *testing.T) {
	a, b, _ := two(t)
	big := strings.Repeat("x", 10000)
	for range 600 { // six times the stream
		for a.Publish([]byte(big)) != nil {
			time.Sleep(time.Millisecond) // too many on their way
		}
	}
	publish(t, a, "end")
	missed := false
	await(t, b, "the last one comes", func(e bus.Event) bool {
		missed = missed || e.Message != nil && e.Message.Missed
		return says("end")(e)
	})
	if !missed {
		t.Error("b got no event that messages are missing")
	}
	if s := a.Status(t.Context()); s.Bytes > 1<<20 {
		t.Errorf("the stream has %d bytes", s.Bytes)
	}
}

func TestStrangersGetNothing(t *testing.T) {
	keys, other := bustest.NewAuthority(t), bustest.NewAuthority(t)
	at := freePort(t)
	a := open(t, settings(t, keys, "a", at, bus.Peer{Name: "b", Address: freePort(t)}))
	await(t, a, "a opens", opened)
	publish(t, a, "a secret")
	for name, s := range map[string]bus.Settings{
		"another authority": settings(t, other, "b", freePort(t), bus.Peer{Name: "a", Address: at}),
		"another name":      settings(t, keys, "c", freePort(t), bus.Peer{Name: "a", Address: at}),
		"no keys":           {Name: "b", Peers: []bus.Peer{{Name: "a", Address: at}}, Listen: freePort(t), Dir: t.TempDir(), Bytes: 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t, s)
			e := await(t, b, "it is turned away", func(e bus.Event) bool { return left(e) || joined(e) || e.Message != nil })
			if !left(e) {
				t.Fatalf("it got %+v", e)
			}
		})
	}
	// a name that another router's certificate has not
	s := settings(t, keys, "c", freePort(t), bus.Peer{Name: "a", Address: at})
	s.Name = "b"
	b := open(t, s)
	if e := await(t, b, "a false name is turned away", func(e bus.Event) bool { return left(e) || joined(e) }); !left(e) {
		t.Fatalf("it got %+v", e)
	}
	b.Close() // or it tries again and again
	status := a.Status(t.Context())
	for end := time.Now().Add(patience); status.Clients != 0 && time.Now().Before(end); status = a.Status(t.Context()) {
		time.Sleep(time.Millisecond)
	}
	if status.Refused == 0 || status.Clients != 0 {
		t.Errorf("status %+v, want refused connections and none left", status)
	}
}

func TestOneWhoPretendsToBeAPeerIsNotBelieved(t *testing.T) {
	keys, other := bustest.NewAuthority(t), bustest.NewAuthority(t)
	at := freePort(t)
	false1 := open(t, settings(t, other, "b", at, bus.Peer{Name: "a", Address: freePort(t)}))
	await(t, false1, "it opens", opened)
	a := open(t, settings(t, keys, "a", freePort(t), bus.Peer{Name: "b", Address: at}))
	if e := await(t, a, "a turns away", func(e bus.Event) bool { return left(e) || joined(e) }); !left(e) {
		t.Fatal("a reads from it")
	}
}

func TestAPasswordOnLoopback(t *testing.T) {
	file := func(text string) string {
		f := filepath.Join(t.TempDir(), "password")
		if err := os.WriteFile(f, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return f
	}
	at := freePort(t)
	good, bad := bus.Keys{PasswordFile: file("correct horse battery\n")}, bus.Keys{PasswordFile: file("incorrect horse battery")}
	a := open(t, bus.Settings{Name: "a", Listen: at, Keys: good, Peers: []bus.Peer{{Name: "b", Address: freePort(t)}}, Dir: t.TempDir(), Bytes: 1 << 20})
	await(t, a, "a opens", opened)
	reader := bus.Settings{Name: "b", Listen: freePort(t), Keys: good, Peers: []bus.Peer{{Name: "a", Address: at}}, Dir: t.TempDir(), Bytes: 1 << 20}
	await(t, open(t, reader), "b reads a", joined)
	reader.Keys, reader.Listen = bad, freePort(t)
	if e := await(t, open(t, reader), "a wrong password is turned away", func(e bus.Event) bool { return left(e) || joined(e) }); !left(e) {
		t.Fatal("a wrong password is good enough")
	}
}

func TestItDoesNotListenForEverybody(t *testing.T) {
	for name, c := range map[string]struct {
		listen string
		keys   bus.Keys
		want   string
	}{
		"nothing at all":            {"127.0.0.1:0", bus.Keys{}, "neither certificates nor a password"},
		"a password in the clear":   {"0.0.0.0:0", bus.Keys{PasswordFile: "/proc/self/cmdline"}, "in the clear"},
		"a certificate that is not": {"127.0.0.1:0", bus.Keys{CA: "/nonexistent"}, "read ca"},
	} {
		t.Run(name, func(t *testing.T) {
			listen := netip.AddrPortFrom(netip.MustParseAddrPort(c.listen).Addr(), freePort(t).Port())
			b := open(t, bus.Settings{Name: "a", Listen: listen, Keys: c.keys, Dir: t.TempDir(), Bytes: 1 << 20})
			for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
				s := b.Status(t.Context())
				if s.Open {
					t.Fatal("it listens")
				}
				if s.Err != nil && strings.Contains(s.Err.Error(), c.want) {
					return
				}
				if time.Now().After(end) {
					t.Fatalf("it says %v, want %q", s.Err, c.want)
				}
			}
		})
	}
}

func TestAServerThatCrashesIsStartedAgain(t *testing.T) {
	a, b, _ := two(t)
	publish(t, a, "before")
	await(t, b, "the message comes", says("before"))
	a.Crash()
	await(t, b, "b sees the server go", left)
	await(t, a, "a opens again", opened)
	if e := await(t, b, "b reads a again", joined); e.Joined.Seamless {
		t.Error("the stream is another, and b thinks that it goes on")
	}
	publish(t, a, "after")
	await(t, b, "the message comes", says("after"))
	if s := a.Status(t.Context()); s.Messages != 1 {
		t.Errorf("status %+v, want a stream that has begun again", s)
	}
}

func TestWhoReadsOnAfterABreakMissesNothing(t *testing.T) {
	a, b, _ := two(t)
	publish(t, a, "one")
	await(t, b, "one comes", says("one"))
	b.Break("a")
	await(t, b, "it is noticed", left)
	publish(t, a, "two")
	if e := await(t, b, "b reads a again", joined); !e.Joined.Seamless {
		t.Error("b thinks that it has missed something")
	}
	e := await(t, b, "two comes", func(e bus.Event) bool { return e.Message != nil })
	if string(e.Message.Data) != "two" || e.Message.Missed {
		t.Errorf("got %q, missed %v", e.Message.Data, e.Message.Missed)
	}
}

func TestAClusterOfTheOperators(t *testing.T) {
	at := freePort(t)
	cluster, err := server.NewServer(&server.Options{
		Host: at.Addr().String(), Port: int(at.Port()), NoLog: true, NoSigs: true, JetStream: true, StoreDir: t.TempDir(),
	})
	if err != nil {
		t.Fatal(err)
	}
	url := []string{"nats://" + at.String()}
	a := open(t, bus.Settings{Name: "a", Peers: []bus.Peer{{Name: "b"}}, Cluster: url, Bytes: 1 << 20})
	await(t, a, "a has no peer", left)
	if err := a.Publish([]byte("x")); err == nil {
		t.Error("a writes to a cluster that is not there")
	}
	cluster.Start()
	t.Cleanup(func() {
		cluster.Shutdown()
		cluster.WaitForShutdown()
	})
	await(t, a, "a opens", opened)
	b := open(t, bus.Settings{Name: "b", Peers: []bus.Peer{{Name: "a"}}, Cluster: url, Bytes: 1 << 20})
	await(t, b, "b reads a", joined)
	await(t, a, "a reads b", joined)
	publish(t, a, "hello")
	await(t, b, "it comes", says("hello"))
	if err := b.Ask("a"); err != nil {
		t.Fatal(err)
	}
	await(t, a, "a is asked", func(e bus.Event) bool { return e.Asked != nil && e.Asked.Peer == "b" })
}

func TestHowFarReadersAreBehindIsKnown(t *testing.T) {
	keys := bustest.NewAuthority(t)
	atA, atB := freePort(t), freePort(t)
	a := open(t, settings(t, keys, "a", atA, bus.Peer{Name: "b", Address: atB}))
	await(t, a, "a opens", opened)
	big := strings.Repeat("x", 10000)
	write := func(n int) {
		t.Helper()
		for range n {
			for a.Publish([]byte(big)) != nil {
				time.Sleep(time.Millisecond) // too many on their way
			}
		}
	}
	write(200)
	if n := a.Behind(); n != 0 {
		t.Errorf("without readers the backlog is %g", n)
	}
	b := open(t, settings(t, keys, "b", atB, bus.Peer{Name: "a", Address: atA}))
	await(t, b, "b reads a", joined)
	// b does not take its messages: some wait there, the rest in the stream
	is := func(what string, ok func(float64) bool) {
		t.Helper()
		for end := time.Now().Add(patience); !ok(a.Behind()); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("still not so: %s (%g)", what, a.Behind())
			}
		}
	}
	for i := range 1000 {
		write(1)
		if i%100 == 99 && a.Behind() > 0.5 {
			break
		}
	}
	is("b is behind", func(n float64) bool { return n > 0.3 && n < 1.5 })
	is("b is stuck, and not waited for", func(n float64) bool { return n == 0 })
	last := make(chan struct{})
	go func() {
		for e := range b.Events() {
			if e.Message != nil && string(e.Message.Data) == "end" {
				close(last)
				return
			}
		}
	}()
	for a.Publish([]byte("end")) != nil {
		time.Sleep(time.Millisecond)
	}
	select {
	case <-last:
	case <-time.After(patience):
		t.Fatal("b does not read on")
	}
	is("b has read all", func(n float64) bool { return n == 0 })
}
