package netfilter

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weft/internal/kernel/nlconn"
	"weft/internal/lab/netspace"
	"weft/internal/lab/netspace/spacetest"
	"weft/internal/state"
)

func openConntrack(t *testing.T, space *netspace.Space) *Conntrack {
	t.Helper()
	var c *Conntrack
	err := space.Do(func() error {
		if err := os.WriteFile("/proc/sys/net/netfilter/nf_conntrack_events", []byte("1\n"), 0o644); err != nil {
			return err
		}
		var err error
		c, err = OpenConntrack()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// connect makes connections of a namespace, n from a port on, and delete ends them.
func (c *Conntrack) connect(t *testing.T, first uint16, n int) {
	t.Helper()
	err := c.asks.AskMany(t.Context(), conntrackNew, unix.NLM_F_ACK|unix.NLM_F_CREATE, n, func(i int) []byte {
		tuple := numbered(first + uint16(i))
		return slices.Concat(netfilterHead(tuple), tupleAttribute(ctaTupleOrig, tuple), tupleAttribute(ctaTupleReply, tuple.Back()),
			nlconn.Attribute(ctaTimeout, nlconn.Put32(600)), nlconn.Attribute(ctaStatus, nlconn.Put32(state.ConnectionConfirmed|state.ConnectionSeenReply)))
	}, succeed)
	if err != nil {
		t.Fatal("make connections:", err)
	}
}

func (c *Conntrack) delete(t *testing.T, first uint16, n int) {
	t.Helper()
	err := c.asks.AskMany(t.Context(), conntrackDelete, unix.NLM_F_ACK, n, func(i int) []byte {
		tuple := numbered(first + uint16(i))
		return slices.Concat(netfilterHead(tuple), tupleAttribute(ctaTupleOrig, tuple))
	}, succeed)
	if err != nil {
		t.Fatal("delete connections:", err)
	}
}

func TestAskingForConnectionTrackingLoadsIt(t *testing.T) {
	if err := spacetest.New(t, "load").Do(func() error { return LoadConntrack(t.Context()) }); err != nil {
		t.Fatal(err)
	}
}

func succeed(_ int, _ uint16, b []byte) error { return nlconn.Answered(b) }

func numbered(port uint16) state.FlowTuple {
	return state.FlowTuple{
		Src: netip.MustParseAddr("10.0.0.2").As16(), Dst: netip.MustParseAddr("203.0.113.80").As16(),
		SrcPort: port, DstPort: 53, Protocol: state.ProtocolUDP,
	}
}

// More connections end than the socket holds: that ends were lost is heard, once,
// and those that come after it are heard again.
func TestLostEndsOfConnectionsAreNoticed(t *testing.T) {
	c := openConntrack(t, spacetest.New(t, "ends"))
	err := c.ends.socket.Control(func(fd int) error {
		return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8192)
	})
	if err != nil {
		t.Fatal(err)
	}
	c.connect(t, 1000, 500)
	c.delete(t, 1000, 500)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { c.Follow(ctx); close(done) }()
	defer func() { cancel(); <-done }()
	await := func(what string, until func([]state.Connection, error) bool) {
		t.Helper()
		deadline := time.After(10 * time.Second)
		for {
			var list []state.Connection
			err := c.Ended(100, func(c state.Connection) { list = append(list, c) })
			if until(list, err) {
				return
			}
			select {
			case <-c.EndsWake():
			case <-deadline:
				t.Fatal("it never came: " + what)
			}
		}
	}
	await("that ends were lost", func(_ []state.Connection, err error) bool { return errors.Is(err, nlconn.ErrEventsLost) })
	c.connect(t, 2000, 1)
	c.delete(t, 2000, 1)
	await("a later end", func(list []state.Connection, err error) bool {
		if err != nil {
			t.Fatal("and then:", err)
		}
		return len(list) == 1 && list[0].Orig == numbered(2000)
	})
	if d := c.Behind(); d != 0 {
		t.Errorf("events have been waiting for %v, and there are none", d)
	}
}

// A connection that is kept as assured stays so, with the time that it was given.
func TestKeptConnectionsAreAssured(t *testing.T) {
	c := openConntrack(t, spacetest.New(t, "kept"))
	c.connect(t, 1000, 2)
	gone, err := c.Keep(t.Context(), []state.KeptConnection{
		{Orig: numbered(1000), Timeout: time.Hour, Assured: true}, {Orig: numbered(1001), Timeout: time.Hour}, {Orig: numbered(1002), Timeout: time.Hour, Assured: true},
	})
	if err != nil || len(gone) != 1 || gone[0] != 2 {
		t.Errorf("gone are %v, want the third (%v)", gone, err)
	}
	found, err := c.Connections(t.Context(), []state.FlowTuple{numbered(1000), numbered(1001)}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, assured := range []bool{true, false} {
		if f := found[i]; f.Status&state.ConnectionAssured != 0 != assured || f.Timeout <= 600*time.Second {
			t.Errorf("connection %d: status %#x, %v left; assured should be %v", i, f.Status, f.Timeout, assured)
		}
	}
}

// Behind reports events that are not read.
func TestEndsThatNobodyTakesAreKnownToWait(t *testing.T) {
	c := openConntrack(t, spacetest.New(t, "waiting"))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { c.Follow(ctx); close(done) }()
	defer func() { cancel(); <-done }()
	c.connect(t, 1000, 3)
	if d := c.Behind(); d != 0 {
		t.Errorf("waiting for %v before anything ended", d)
	}
	c.delete(t, 1000, 3)
	<-c.EndsWake()
	if c.Behind() == 0 {
		t.Error("an event of an end waits, and Behind does not report it")
	}
	deadline := time.Now().Add(10 * time.Second)
	for n := 0; n < 3 && time.Now().Before(deadline); {
		if err := c.Ended(2, func(state.Connection) { n++ }); err != nil {
			t.Fatal(err)
		}
	}
	if d := c.Behind(); d != 0 {
		t.Errorf("all were taken, and they wait for %v", d)
	}
}

// Whether the kernel accepts TCP packets of a connection outside of its window
// (be_liberal).
func TestAConnectionIsMadeLiberalAndSaysSo(t *testing.T) {
	c := openConntrack(t, spacetest.New(t, "liberal"))
	tuple := numbered(40000)
	tuple.Protocol = state.ProtocolTCP
	body := slices.Concat(netfilterHead(tuple), tupleAttribute(ctaTupleOrig, tuple), tupleAttribute(ctaTupleReply, tuple.Back()),
		nlconn.Attribute(ctaTimeout, nlconn.Put32(600)), nlconn.Attribute(ctaStatus, nlconn.Put32(state.ConnectionConfirmed|state.ConnectionSeenReply|state.ConnectionAssured)),
		nlconn.Nested(ctaProtoInfo, nlconn.Nested(ctaProtoInfoTCP, nlconn.Attribute(ctaTCPState, []byte{state.TCPEstablished}))))
	if err := c.asks.AskMany(t.Context(), conntrackNew, unix.NLM_F_ACK|unix.NLM_F_CREATE, 1, func(int) []byte { return body }, succeed); err != nil {
		t.Fatal("make a connection:", err)
	}
	for _, liberal := range []bool{false, true} {
		if liberal {
			if gone, err := c.Keep(t.Context(), []state.KeptConnection{{Orig: tuple, Liberal: true}}); err != nil || len(gone) != 0 {
				t.Fatalf("%d are gone, %v", len(gone), err)
			}
		}
		found, err := c.Connections(t.Context(), []state.FlowTuple{tuple}, 0)
		if err != nil || found[0].TCP != state.TCPEstablished || found[0].Liberal != liberal || found[0].Timeout > 10*time.Minute || found[0].Timeout < 9*time.Minute {
			t.Errorf("liberal set: %v; it is %+v (%v)", liberal, found[0], err)
		}
	}
}
