package routerun

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weft/fib"
	"weft/internal/feature/route"
	"weft/internal/kernel/rtnetlink"
	"weft/internal/lab/netspace/spacetest"
	"weft/internal/state"
)

// A table without room leaves its family to the kernel until there is room again, and no
// longer: the tables are built again without a restart of weft.
func TestRoutesThatHaveRoomAgainAreMirroredAgain(t *testing.T) {
	space := spacetest.New(t, "room")
	routes := func(verb string) {
		var text strings.Builder
		for i := range 3000 {
			fmt.Fprintf(&text, "route %s blackhole 30.%d.%d.128/25\n", verb, i>>8, i&255)
		}
		c := exec.Command("ip", "-force", "-batch", "-")
		c.Stdin = strings.NewReader("link set lo up\n" + text.String())
		if err := space.Start(c); err != nil {
			t.Fatal(err)
		}
		_ = c.Wait() // lo may be up
	}
	routes("add")

	var now atomic.Pointer[mirror]
	opened := 0
	open := func() (*mirror, func() error, error) {
		opened++
		memory := &memory{map[uint32]state.Nexthop{}, map[uint32]state.NeighbourEntry{}, map[uint32]uint32{}}
		four, err4 := fib.New4(make([]uint32, fib.MinWords4+1<<15))
		six, err6 := fib.New6(make([]uint32, fib.MinWords6+1<<15))
		var feed *rtnetlink.Feed
		errFeed := space.Do(func() (err error) { feed, err = rtnetlink.OpenFeed(); return err })
		if err := errors.Join(err4, err6, errFeed); err != nil {
			return nil, nil, err
		}
		service := route.New(memory, route.Numbers{First: 1, Last: 5000}, route.TableSpec{Kernel: state.TableMain, IPv4: four, IPv6: six})
		m := newMirror(slog.New(slog.DiscardHandler), feed, service, memory, func() error { return nil })
		return m, func() error { feed.Close(); return nil }, nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mirrorInTurn(ctx, open, func(m *mirror) { now.Store(m) }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	wait := func(what string, is func(ipv4 string, prefixes int) bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			var why string
			var prefixes int
			m := now.Load()
			known := m != nil && m.with(ctx, func(s *route.Service) { why, prefixes = s.Suspended()[0], s.Status().Prefixes4 }) == nil
			if known && is(why, prefixes) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%s does not come about: left to the kernel because %q, %d prefixes", what, why, prefixes)
			}
		}
	}
	wait("a table without room", func(ipv4 string, _ int) bool { return strings.Contains(ipv4, "table") })
	routes("del")
	wait("a table with room", func(ipv4 string, prefixes int) bool { return ipv4 == "" && prefixes > 0 && prefixes < 3000 })
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	ended <- nil
	if opened < 2 {
		t.Errorf("the tables were opened %d times, want others after those without room", opened)
	}
}
