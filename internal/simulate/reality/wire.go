// Package reality holds the simulator against the kernel: the same transfers by
// Linux MPTCP (RFC 8684) over real sockets, whose packets go through links of
// the same rates, delays and queues.
//
//	namespace A                                  namespace B
//	 sender   p0 (TUN) ---- Wire, 20 Mbit/s, 10 ms ---- p0 (TUN)   receiver
//	          p1 (TUN) ---- Wire,  5 Mbit/s, 50 ms ---- p1 (TUN)
package reality

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Shape is one direction of a link.
type Shape struct {
	Rate  int64         // bits a second, 0 = no limit
	Delay time.Duration // behind the queue
	Queue int64         // bytes
}

// openTUN makes a TUN device in the namespace of the calling thread.
func openTUN(name string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/net/tun: %w", err)
	}
	r, err := unix.NewIfreq(name)
	if err == nil {
		r.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, r)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make TUN device %s: %w", name, err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), name), nil
}

// frame is a packet and when it arrives.
type frame struct {
	at   time.Time
	data []byte
}

// carry brings packets from one device to another as the shape says, until the
// context ends or a device is closed. Departures are computed, not waited for,
// so that a late wake-up delays a packet but does not lower the rate. It counts
// the bytes that found room in the queue.
func carry(ctx context.Context, from, to *os.File, s Shape, count *atomic.Int64) error {
	// room for whatever queue and delay can hold
	flying := make(chan frame, 1<<16)
	done := make(chan error, 1)
	go func() { done <- deliver(ctx, to, flying) }()
	free := time.Now() // when the bottleneck has sent all it was given
	buffer := make([]byte, 1<<16)
	var err error
	for {
		n, e := from.Read(buffer)
		if e != nil {
			err = e
			break
		}
		now := time.Now()
		at := now
		if s.Rate > 0 {
			free = later(free, now)
			waiting := int64(free.Sub(now)) * s.Rate / 8e9
			if waiting > s.Queue {
				continue
			}
			free = free.Add(time.Duration(int64(n) * 8e9 / s.Rate))
			at = free
		}
		count.Add(int64(n))
		flying <- frame{at.Add(s.Delay), append([]byte(nil), buffer[:n]...)}
	}
	close(flying)
	if ctx.Err() != nil || errors.Is(err, os.ErrClosed) {
		err = nil
	}
	return errors.Join(err, <-done)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// deliver writes each packet when it is due.
func deliver(ctx context.Context, to *os.File, flying <-chan frame) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for f := range flying {
		if wait := time.Until(f.at); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
				continue
			}
		}
		if ctx.Err() != nil {
			continue
		}
		if _, err := to.Write(f.data); err != nil && !errors.Is(err, os.ErrClosed) && !errors.Is(err, unix.EIO) {
			return fmt.Errorf("deliver a packet: %w", err)
		}
	}
	return nil
}
