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
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Shape is one direction of a link.
type Shape struct {
	Rate  int64         // bits a second, 0 = no limit
	Delay time.Duration // behind the queue
	Queue int64         // bytes, the packet being sent not counted
}

// openTUN makes a TUN device in the namespace of the calling thread.
func openTUN(name string) (int, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open /dev/net/tun: %w", err)
	}
	r, err := unix.NewIfreq(name)
	if err == nil {
		r.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, r)
	}
	if err != nil {
		return -1, errors.Join(fmt.Errorf("make TUN device %s: %w", name, err), unix.Close(fd))
	}
	return fd, nil
}

// wire is one direction of a link.
type wire struct {
	shape    Shape
	from, to int // TUN devices
	flying   chan frame
	carried  atomic.Int64 // bytes that found room in the queue
	dropped  atomic.Int64 // packets that did not
	late     []time.Duration
}

// frame is a packet and when it arrives.
type frame struct {
	at   time.Duration // of the monotonic clock
	data []byte
}

func newWire(s Shape, from, to int) *wire {
	// room for whatever queue and delay can hold
	return &wire{shape: s, from: from, to: to, flying: make(chan frame, 1<<16)}
}

// carry brings packets from one device to another as the shape says, until the
// context ends. Departures are computed, not waited for, so that a late wake-up
// delays a packet but does not lower the rate; how late each was is kept.
func (w *wire) carry(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- w.deliver() }()
	err := w.collect(ctx)
	close(w.flying)
	return errors.Join(err, <-done)
}

// collect computes when each packet arrives.
func (w *wire) collect(ctx context.Context) error {
	runtime.LockOSThread() // its timer slack is its own; never unlocked: the thread ends with the goroutine
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	buffer := make([]byte, 1<<16)
	queue := bottleneck{shape: w.shape}
	for ctx.Err() == nil {
		n, err := unix.Read(w.from, buffer)
		switch {
		case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
			// a while, so that the end of the context is seen
			_, err := unix.Poll([]unix.PollFd{{Fd: int32(w.from), Events: unix.POLLIN}}, 50)
			if err != nil && !errors.Is(err, unix.EINTR) {
				return fmt.Errorf("wait for a packet: %w", err)
			}
			continue
		case err != nil:
			return fmt.Errorf("read a packet: %w", err)
		}
		at, ok := queue.send(monotonic(), int64(n))
		if !ok {
			w.dropped.Add(1)
			continue
		}
		w.carried.Add(int64(n))
		w.flying <- frame{at + w.shape.Delay, append([]byte(nil), buffer[:n]...)}
	}
	return nil
}

// deliver writes each packet when it is due.
func (w *wire) deliver() error {
	runtime.LockOSThread() // its timer slack is its own; never unlocked: the thread ends with the goroutine
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	for f := range w.flying {
		sleepUntil(f.at)
		w.late = append(w.late, monotonic()-f.at)
		if _, err := unix.Write(w.to, f.data); err != nil && !errors.Is(err, unix.EIO) {
			return fmt.Errorf("deliver a packet: %w", err)
		}
	}
	return nil
}

// bottleneck is a queue with constant-rate service, on computed times.
type bottleneck struct {
	shape  Shape
	free   time.Duration // when all that it was given has been sent
	queue  []waiting     // not begun yet
	queued int64         // bytes of them
}

type waiting struct {
	begin time.Duration // of its service
	size  int64
}

// send returns when the last byte of a packet has left; it says false where the
// queue is full.
func (b *bottleneck) send(now time.Duration, size int64) (time.Duration, bool) {
	if b.shape.Rate == 0 {
		return now, true
	}
	for len(b.queue) > 0 && b.queue[0].begin <= now {
		b.queued -= b.queue[0].size
		b.queue = b.queue[1:]
	}
	begin := max(b.free, now)
	if begin > now {
		if b.queued+size > b.shape.Queue {
			return 0, false
		}
		b.queue = append(b.queue, waiting{begin, size})
		b.queued += size
	}
	b.free = begin + time.Duration(size*8e9/b.shape.Rate)
	return b.free, true
}

// monotonic is the kernel's clock for sleeping.
func monotonic() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // fails for unknown clocks only
	return time.Duration(t.Nano())
}

func sleepUntil(at time.Duration) {
	t := unix.NsecToTimespec(int64(at))
	for errors.Is(unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &t, nil), unix.EINTR) {
	}
}
