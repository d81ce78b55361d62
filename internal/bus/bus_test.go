package bus_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"weft/internal/bus"
	"weft/internal/bus/bustest"
	"weft/internal/testbin"
)

// freePort returns a port of a loopback address that no other process uses.
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

func settings(t *testing.T, a *bustest.Authority, name string, listen netip.AddrPort, peer string, at netip.AddrPort) bus.Settings {
	t.Helper()
	certificate, key := a.Router(name)
	return bus.Settings{
		Program: filepath.Join(filepath.Dir(testbin.Weft(t)), bus.Program),
		Name:    name, Listen: listen, Keys: bus.Keys{CA: a.File, Certificate: certificate, Key: key},
		Peers: []bus.Peer{{Name: peer, Address: at}}, Dir: filepath.Join(t.TempDir(), "bus"), Bytes: 1 << 20,
	}
}

func open(t *testing.T, s bus.Settings) *bus.Bus {
	t.Helper()
	b := bus.Open(t.Context(), s, slog.New(slog.DiscardHandler))
	t.Cleanup(b.Close)
	return b
}

const patience = time.Minute

// await passes over events until one is as wanted.
func await(t *testing.T, b *bus.Bus, what string, is func(bus.Event) bool) bus.Event {
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
func closed(e bus.Event) bool { return e.Closed != nil }
func joined(e bus.Event) bool { return e.Joined != nil }
func left(e bus.Event) bool   { return e.Left != nil }
func says(text string) func(bus.Event) bool {
	return func(e bus.Event) bool { return e.Message != nil && string(e.Message.Data) == text }
}

// two gives routers that read each other, each with a helper of its own.
func two(t *testing.T) (a, b *bus.Bus) {
	t.Helper()
	keys := bustest.NewAuthority(t)
	atA, atB := freePort(t), freePort(t)
	a = open(t, settings(t, keys, "a", atA, "b", atB))
	await(t, a, "a opens", opened)
	b = open(t, settings(t, keys, "b", atB, "a", atA))
	await(t, b, "b reads a", joined)
	await(t, a, "a reads b", joined)
	return a, b
}

func publish(t *testing.T, b *bus.Bus, text string) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) { // a queue that is full
		err := b.Publish([]byte(text))
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

func TestRoutersTalkThroughTheirHelpers(t *testing.T) {
	a, b := two(t)
	large := strings.Repeat("x", 30000)
	for i := range 1000 { // 30 times what the stream holds
		publish(t, a, large)
		if i%10 == 0 {
			a.Behind()
		}
	}
	publish(t, a, "the end")
	missed := 0
	await(t, b, "the last one comes", func(e bus.Event) bool {
		if e.Message != nil && e.Message.Missed {
			missed++
		}
		return says("the end")(e)
	})
	if err := b.Ask("a"); err != nil {
		t.Fatal(err)
	}
	await(t, a, "a is asked by b", func(e bus.Event) bool { return e.Asked != nil && e.Asked.Peer == "b" })
	var s bus.Status
	for end := time.Now().Add(patience); s.Messages == 0 || s.Clients == 0; s = a.Status() {
		if time.Now().After(end) {
			t.Fatalf("status %+v", s)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if !s.Open || s.Err != nil || s.Clients != 1 || s.Bytes > 1<<20 || a.Fault() != nil {
		t.Errorf("status %+v, fault %v (%d gaps)", s, a.Fault(), missed)
	}
}

// A helper that dies or hangs costs the messages that were in it. The router
// learns it, and begins with a new stream; so does its peer.
func TestAHelperThatDiesOrHangsIsReplaced(t *testing.T) {
	for name, signal := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "aborted": syscall.SIGABRT, "stopped": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			a, b := two(t)
			publish(t, a, "before")
			await(t, b, "it comes", says("before"))
			if err := syscall.Kill(a.Process(), signal); err != nil {
				t.Fatal(err)
			}
			await(t, a, "the stream of a is closed", closed)
			if err := a.Publish([]byte("meanwhile")); !errors.Is(err, bus.ErrClosed) && a.Fault() == nil {
				t.Errorf("a message meanwhile: %v", err)
			}
			await(t, a, "a reads b no more", left)
			seen := map[string]bool{} // in any order
			await(t, a, "a opens again and reads b", func(e bus.Event) bool {
				seen["opened"], seen["joined"] = seen["opened"] || opened(e), seen["joined"] || joined(e)
				return seen["opened"] && seen["joined"]
			})
			if e := await(t, b, "b reads a again", joined); e.Joined.Seamless {
				t.Error("the stream is another, and b thinks that it goes on")
			}
			publish(t, a, "after")
			await(t, b, "messages go on", says("after"))
			if err := a.Fault(); err == nil || !strings.Contains(err.Error(), "it has ended once") {
				t.Errorf("health afterwards: %v", err)
			}
			if err := b.Fault(); err != nil {
				t.Errorf("health of the other: %v", err)
			}
		})
	}
}

func TestAHelperThatIsMissingIsNamedForEachPeer(t *testing.T) {
	s := settings(t, bustest.NewAuthority(t), "a", freePort(t), "b", freePort(t))
	s.Program = filepath.Join(t.TempDir(), bus.Program)
	b := open(t, s)
	e := await(t, b, "the peer cannot be read", left)
	for _, err := range []error{e.Left.Err, b.Fault(), b.Status().Err} {
		if err == nil || !strings.Contains(err.Error(), s.Program+" is missing: install it beside weft") {
			t.Errorf("it says %v", err)
		}
	}
	if err := b.Publish([]byte("x")); !errors.Is(err, bus.ErrClosed) {
		t.Errorf("a message: %v", err)
	}
}

// What keeps the own stream from being written is a fault that health shows.
func TestAPortThatIsTakenIsAFault(t *testing.T) {
	at := freePort(t)
	l, err := net.Listen("tcp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	b := open(t, settings(t, bustest.NewAuthority(t), "a", at, "b", freePort(t)))
	e := await(t, b, "it says why", closed)
	if err := b.Fault(); err == nil || !strings.Contains(err.Error(), "listen on "+at.String()) {
		t.Errorf("fault %v, event %v", err, e.Closed.Err)
	}
	l.Close()
	await(t, b, "it opens when the port is free", opened)
	if err := b.Fault(); err != nil {
		t.Errorf("then: %v", err)
	}
}
