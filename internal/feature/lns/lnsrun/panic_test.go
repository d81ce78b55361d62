package lnsrun

import (
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"weft/internal/feature/ra"
	"weft/internal/paths"
	"weft/internal/runner"
	"weft/internal/state"
	"weft/internal/subscriber"
	"weft/internal/task"
)

// A datagram at which the engine panics is lost; those after it, also of the same batch,
// are handled, and health has its outline.
func TestADatagramAtWhichTheEnginePanicsIsLost(t *testing.T) {
	here, there := netip.MustParseAddrPort("192.0.2.1:1701"), netip.MustParseAddrPort("198.51.100.7:40000")
	l := &ledger{sessions: map[uint16]state.L2TPSession{}, in: make(chan []byte, 1000), from: there}
	r := start(t.Context(), runner.Doors{Log: slog.New(slog.DiscardHandler), Paths: paths.Dirs{Run: t.TempDir()}, Replan: func() {}}, ra.Links{})
	t.Cleanup(func() { _ = r.Close() })
	var right *subscriber.Engine
	ask := func(f func(s *subscribers)) {
		t.Helper()
		if err := r.box.Ask(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	ask(func(s *subscribers) {
		servesAlice(s, l, here)
		right, s.engine = s.engine, nil // each use of it panics, also what settles the batch
		bad := datagram{there, []byte{0xc8, 2}}
		_ = task.Call(func() error { s.receive(here, []datagram{bad, bad, bad}); return nil })
		s.engine = right
	})
	l.in <- []byte("datagram")
	until(t, "datagrams are read again", func() bool { return len(l.in) == 0 })
	ask(func(*subscribers) {})
	err := r.state.guard.Fault()
	if err == nil || !strings.Contains(err.Error(), "3 messages") || !strings.Contains(err.Error(), "begins with c802") {
		t.Errorf("health says %v", err)
	}
}
