package kernel

import (
	"context"
	"fmt"
	"time"

	"github.com/vishvananda/netlink"
)

// news is a subscription to changes of links and addresses.
type news struct {
	links     chan netlink.LinkUpdate
	addresses chan netlink.AddrUpdate
	done      chan struct{}
}

func subscribe() (*news, error) {
	n := &news{make(chan netlink.LinkUpdate, 64), make(chan netlink.AddrUpdate, 64), make(chan struct{})}
	if err := netlink.LinkSubscribe(n.links, n.done); err != nil {
		return nil, fmt.Errorf("subscribe to links: %w", err)
	}
	if err := netlink.AddrSubscribe(n.addresses, n.done); err != nil {
		close(n.done)
		return nil, fmt.Errorf("subscribe to addresses: %w", err)
	}
	return n, nil
}

// resubscribeAfter is the pause between attempts to hear again.
const resubscribeAfter = time.Second

// Watch sends on changed whenever a link or an address changed, until ctx
// ends. The channel needs a buffer of one: more news while one is unread say
// nothing new. A subscription ends when the kernel had more news than were
// read in time (ENOBUFS); that counts as a change, and another takes its place.
func (k *Kernel) Watch(ctx context.Context, changed chan<- struct{}) error {
	n, err := subscribe()
	if err != nil {
		return err
	}
	go func() {
		for n.follow(ctx, changed) {
			if n = again(ctx); n == nil {
				return
			}
			tell(changed)
		}
	}()
	return nil
}

// follow tells of news until ctx ends or the subscription does; it gives
// whether it was the latter.
func (n *news) follow(ctx context.Context, changed chan<- struct{}) bool {
	defer n.end()
	for {
		heard := false
		select {
		case <-ctx.Done():
			return false
		case _, heard = <-n.links:
		case _, heard = <-n.addresses:
		}
		if !heard {
			return true
		}
		tell(changed)
	}
}

// end unsubscribes. What is on its way is read, or its sender would wait for ever.
func (n *news) end() {
	close(n.done)
	go func() {
		for range n.links {
		}
	}()
	go func() {
		for range n.addresses {
		}
	}()
}

func tell(changed chan<- struct{}) {
	select {
	case changed <- struct{}{}:
	default:
	}
}

// again subscribes until it succeeds; nil if ctx ends before.
func again(ctx context.Context) *news {
	for {
		if n, err := subscribe(); err == nil {
			return n
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(resubscribeAfter):
		}
	}
}
