package netfilter

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"weft/internal/kernel/nlconn"
)

// netfilterEvents is a subscription to one group.
type netfilterEvents struct {
	socket *nlconn.Conn
	wake   chan struct{}
	mu     sync.Mutex
	queue  [][]byte
	bytes  int
	since  time.Time // something has been waiting to be taken, if there is anything
	lost   bool
	some   bool // something came
	keep   bool // what it was is of interest
	ended  error
}

func subscribeNetfilter(group int, keep bool) (*netfilterEvents, error) {
	s, err := nlconn.Open(unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, err
	}
	err = s.Control(func(fd int) error {
		return errors.Join(nlconn.Widen(fd), unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, group))
	})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &netfilterEvents{socket: s, wake: make(chan struct{}, 1), keep: keep}, nil
}

func (n *netfilterEvents) follow(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { n.socket.Interrupt() })
	defer stop()
	for ctx.Err() == nil {
		err := n.socket.Drain(n.take)
		n.note(err)
		if err != nil && !errors.Is(err, unix.ENOBUFS) {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(nlconn.Pause):
		}
	}
}

// note records that there are events, or that there will be no more.
func (n *netfilterEvents) note(err error) {
	n.mu.Lock()
	switch {
	case errors.Is(err, unix.ENOBUFS):
		n.begin()
		n.lost = true
	case err != nil:
		n.begin()
		n.ended = fmt.Errorf("read netlink events: %w", err)
	}
	n.mu.Unlock()
	nlconn.Wake(n.wake)
}

// begin records the time from which events are waiting.
func (n *netfilterEvents) begin() {
	if !n.some && !n.lost && len(n.queue) == 0 {
		n.since = time.Now()
	}
}

// behind is how long events have been waiting; zero if there are none.
func (n *netfilterEvents) behind() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.some && !n.lost && n.ended == nil && len(n.queue) == 0 {
		return 0
	}
	return time.Since(n.since)
}

func (n *netfilterEvents) take(piece []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.begin()
	switch {
	case !n.keep:
		n.some = true
	case n.bytes+len(piece) > nlconn.QueueMax:
		n.lost = true
	default:
		n.queue = append(n.queue, append([]byte(nil), piece...))
		n.bytes += len(piece)
	}
}

// changed reports once that an event came.
func (n *netfilterEvents) changed() (bool, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	changed := n.some || n.lost
	n.some, n.lost = false, false
	return changed, n.ended
}

// oldest removes the oldest messages from the queue, and wakes again if there are
// more. After ErrEventsLost messages are missing, and it returns none.
func (n *netfilterEvents) oldest(most int) (queue [][]byte, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lost {
		n.queue, n.bytes, n.lost = nil, 0, false
		return nil, nlconn.ErrEventsLost
	}
	most = min(most, len(n.queue))
	queue, n.queue = n.queue[:most], n.queue[most:]
	for _, piece := range queue {
		n.bytes -= len(piece)
	}
	if len(n.queue) > 0 {
		n.since = time.Now()
		nlconn.Wake(n.wake)
		return queue, nil
	}
	return queue, n.ended
}
