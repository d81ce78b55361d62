package kernel

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"weft/internal/kernel/nlconn"
	"weft/internal/task"
)

// wayGroups are the groups whose events may change the path to another host.
var wayGroups = []int{
	unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH, unix.RTNLGRP_NEXTHOP,
	unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE,
}

// Watch sends on changed whenever a link or an address has changed, until ctx ends.
// The channel needs a buffer of one: further events while one is unread add no
// information.
func (k *Kernel) Watch(ctx context.Context, changed chan<- struct{}) error {
	return watch(ctx, []int{unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR}, changed)
}

// WatchPaths is Watch for routes, rules, next hop objects, neighbours and links.
func (k *Kernel) WatchPaths(ctx context.Context, changed chan<- struct{}) error {
	return watch(ctx, wayGroups, changed)
}

// eventsPause is the time between two readings of events.
const eventsPause = 10 * time.Millisecond

// watch receives netlink events of some groups and signals changed. Their content is
// not used: the receiver of the signal reads the state itself, and thousands of
// devices make tens of thousands of events. So lost events (ENOBUFS) are as good as
// any.
func watch(ctx context.Context, groups []int, changed chan<- struct{}) error {
	events, err := nlconn.OpenRoute()
	if err != nil {
		return err
	}
	err = events.Control(func(fd int) (err error) {
		for _, group := range groups {
			err = errors.Join(err, unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, group))
		}
		return err
	})
	if err != nil {
		return errors.Join(fmt.Errorf("subscribe to netlink events: %w", err), events.Close())
	}
	stop := context.AfterFunc(ctx, func() { events.Close() })
	task.Again("events of the kernel", func() {
		for {
			if err := events.Drain(func([]byte) {}); err != nil && !errors.Is(err, unix.ENOBUFS) {
				stop()
				events.Close()
				return
			}
			nlconn.Wake(changed)
			select {
			case <-ctx.Done():
			case <-time.After(eventsPause):
			}
		}
	})
	return nil
}
