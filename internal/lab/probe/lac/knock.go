package lac

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// Knock waits until a server answers: a tunnel is asked for, and given up. It comes
// from another port, so that no other one is taken for it.
func Knock(ctx context.Context, here netip.Addr, server netip.AddrPort) error {
	conn, err := Dial(netip.AddrPortFrom(here, 0), server)
	if err != nil {
		return err
	}
	l := New(conn, 1, 0)
	for ctx.Err() == nil {
		l.opened, l.tunnels[0].ns, l.tunnels[0].unacked = 0, 0, nil
		l.now = time.Now()
		l.openNext()
		for range 5 {
			if err := l.Turn(knockEvery / 5); err != nil {
				return errors.Join(err, conn.Close())
			}
			if l.tunnels[0].open {
				return l.Close()
			}
		}
	}
	return errors.Join(fmt.Errorf("ask %s for a tunnel: %w", server, context.Cause(ctx)), conn.Close())
}

const knockEvery = 100 * time.Millisecond
