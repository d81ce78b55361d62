package lac

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Malformed sends what no sane peer sends, in tunnels and sessions of its own and
// outside of any, and sees that other subscribers go on.
type Malformed struct {
	Server            netip.AddrPort
	LocalAddr, Steady netip.AddrPort // of the two concentrators; Here's port is the first of many
	RADIUS            netip.AddrPort
	Target            netip.Addr
	Out               io.Writer
}

// malformed is one datagram; ids and numbers of the tunnel are put in where it
// has room for them.
type malformed struct {
	name string
	make func(t *Tunnel, s *Session) []byte
}

// atOnce is how many are sent before others are asked how they are.
const atOnce = 5

// Run sends each, and asks after some how the others are.
func (m Malformed) Run(ctx context.Context) error {
	radius, err := ListenRADIUS(m.RADIUS)
	if err != nil {
		return err
	}
	defer radius.Close()
	ledger := ServeRADIUS(radius)
	storm := Storm{Server: m.Server, Steady: m.Steady, Target: m.Target, Out: m.Out}
	conn, err := Dial(m.Steady, m.Server)
	if err != nil {
		return err
	}
	others := New(conn, 1, steadySessions)
	others.Prefix = "steady"
	if _, err := others.BringUp(ctx); err != nil {
		return err
	}
	if err := storm.begun(ctx, ledger, others, steadySessions); err != nil {
		return err
	}
	all := slices.Concat(cases(), knownCases())
	port := m.LocalAddr.Port()
	for some := range slices.Chunk(all, atOnce) {
		var names []string
		failed := make(chan error, len(some))
		for _, c := range some {
			names = append(names, c.name)
			here := netip.AddrPortFrom(m.LocalAddr.Addr(), port)
			port++
			go func() {
				err := m.send(ctx, c, here)
				if err != nil {
					err = fmt.Errorf("%s: %w", c.name, err)
				}
				failed <- err
			}()
		}
		var errs []error
		for range some {
			errs = append(errs, <-failed)
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
		if err := storm.echo(ctx, others); err != nil {
			return fmt.Errorf("after one of these messages, other sessions were affected: %s: %w", strings.Join(names, "; "), err)
		}
	}
	fmt.Fprintf(m.Out, "done: %d malformed datagrams, each in a session of its own; others noticed nothing\n", len(all))
	<-ctx.Done()
	return nil
}

// send sets a session up and sends one datagram in it, and once more without any.
func (m Malformed) send(ctx context.Context, c malformed, here netip.AddrPort) error {
	conn, err := Dial(here, m.Server)
	if err != nil {
		return err
	}
	l := New(conn, 1, 1)
	l.Prefix = fmt.Sprintf("port%d", here.Port()) // a login of its own: others go on beside it
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if _, err := l.BringUp(ctx); err != nil {
		return errors.Join(err, conn.Close())
	}
	unknown := &Tunnel{ID: 1}
	for range 2 {
		l.send(c.make(l.tunnels[0], l.Sessions[0]))
		l.send(c.make(unknown, &Session{ID: 1, tunnel: unknown}))
	}
	_ = l.Turn(5 * time.Millisecond) // the server may end what it was sent in
	return l.Abandon()
}
