package kernel

import (
	"context"
	"fmt"

	"github.com/vishvananda/netlink"
)

// Watch sends on changed whenever a link or an address changed, until ctx
// ends. The channel needs a buffer of one: more news while one is unread say
// nothing new.
func (k *Kernel) Watch(ctx context.Context, changed chan<- struct{}) error {
	links := make(chan netlink.LinkUpdate, 64)
	addresses := make(chan netlink.AddrUpdate, 64)
	if err := netlink.LinkSubscribe(links, ctx.Done()); err != nil {
		return fmt.Errorf("subscribe to links: %w", err)
	}
	if err := netlink.AddrSubscribe(addresses, ctx.Done()); err != nil {
		return fmt.Errorf("subscribe to addresses: %w", err)
	}
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case _, ok := <-links:
				if !ok {
					return
				}
			case _, ok := <-addresses:
				if !ok {
					return
				}
			}
			select {
			case changed <- struct{}{}:
			default:
			}
		}
	}()
	return nil
}
