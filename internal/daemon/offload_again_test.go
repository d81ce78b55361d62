package daemon_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	againPorts = 16  // that are used again and again
	againTimes = 150 // each
	againTurns = 6   // of question and answer in each connection
)

// Ports are used again as soon as the server has closed the connection before, so
// that connections are offloaded before the event of the end of the connection in
// the same place.
func TestAPortThatIsUsedAgainAtOnce(t *testing.T) {
	t.Parallel()
	for _, hook := range []string{"tc", "xdp"} {
		t.Run(hook, func(t *testing.T) {
			w := newHome(t, hook, homeRules)
			w.start()
			w.closesFirst("198.51.100.9:7", "[2001:db8:2::9]:7")
			var all sync.WaitGroup
			for port := range uint16(againPorts) {
				all.Go(func() {
					from, to := netip.MustParseAddrPort("10.0.0.2:0"), "198.51.100.9:7"
					if port%2 == 1 {
						from, to = netip.MustParseAddrPort("[2001:db8:1::2]:0"), "[2001:db8:2::9]:7"
					}
					from = netip.AddrPortFrom(from.Addr(), 40000+port)
					for n := range againTimes {
						if err := w.askAll(from, to); err != nil {
							t.Errorf("connection %d from %s: %v", n, from, err)
							return
						}
					}
				})
			}
			all.Wait()
			if n := w.counted("forward-flow"); n < againPorts*againTimes {
				t.Errorf("%d packets went past the stack", n)
			}
		})
	}
}

// closesFirst answers at the server, and closes after the last turn.
func (w *topology) closesFirst(addresses ...string) {
	w.t.Helper()
	err := w.server.Do(func() (err error) {
		for _, address := range addresses {
			err = errors.Join(err, w.accept("tcp", address, func(c net.Conn) { io.CopyN(c, c, againTurns) }))
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// askAll is one connection of the member's.
func (w *topology) askAll(from netip.AddrPort, to string) (err error) {
	var c net.Conn
	err = w.member.Do(func() (err error) {
		d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(from), Timeout: 5 * time.Second}
		for range 1000 { // the one before has yet to hear the server's last word
			if c, err = d.Dial("tcp", to); !errors.Is(err, unix.EADDRINUSE) {
				return err
			}
			time.Sleep(5 * time.Millisecond)
		}
		return err
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	b := make([]byte, 1)
	for turn := range againTurns {
		if _, err := c.Write(b); err != nil {
			return fmt.Errorf("question %d: %w", turn, err)
		}
		if _, err := io.ReadFull(c, b); err != nil {
			return fmt.Errorf("answer %d: %w", turn, err)
		}
	}
	if _, err := c.Read(b); !errors.Is(err, io.EOF) {
		return fmt.Errorf("the server's end: %w", err)
	}
	return nil
}
