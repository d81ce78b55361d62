// Package rtnetlink queries the kernel's routes, rules, neighbours and links, and
// follows their events.
package rtnetlink

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weft/internal/kernel/driver"
	"weft/internal/kernel/nlconn"
	"weft/internal/state"
)

// Sink receives the kernel's routes and the objects that they refer to.
type Sink interface {
	Link(l state.KernelLink)
	LinkGone(index int)
	Neighbour(n state.KernelNeighbour)
	NeighbourGone(n state.KernelNeighbour)
	BridgeEntry(e state.BridgeEntry)
	BridgeEntryGone(e state.BridgeEntry)
	Object(o state.NexthopObject)
	// ObjectGone: the kernel has removed the routes that named it as well, without
	// an event.
	ObjectGone(id uint32)
	// Route must not keep r or its Hops.
	Route(r *state.KernelRoute, change state.RouteChange)
	Rules(rules []state.KernelRule)
	// RoutesMayBeGone reports that the kernel may have removed routes without an
	// event for each.
	RoutesMayBeGone()
}

// Feed receives events of routes, neighbours, links, next hop objects and rules.
// Dump and Deliver belong to one goroutine.
type Feed struct {
	events *nlconn.Conn // subscribed
	asks   *nlconn.Conn // dumps
	wake   chan struct{}
	mu     sync.Mutex
	queue  [][]byte
	bytes  int
	since  time.Time // since when events have been waiting, if there are any
	lost   bool      // events were lost: only a dump shows the current state
	ended  error

	netdev *netlink.GenlFamily // nil: this kernel does not tell what drivers can
	route  state.KernelRoute   // used again and again
}

// OpenFeed subscribes to the events. Follow must run for them to be read.
func OpenFeed() (*Feed, error) {
	events, err := nlconn.OpenRoute()
	if err != nil {
		return nil, err
	}
	asks, err := nlconn.OpenRoute()
	if err != nil {
		return nil, errors.Join(err, events.Close())
	}
	f := &Feed{events: events, asks: asks, wake: make(chan struct{}, 1)}
	if family, err := netlink.GenlFamilyGet("netdev"); err == nil {
		f.netdev = family
	}
	if err := events.Control(subscribeRoutes); err != nil {
		return nil, errors.Join(fmt.Errorf("subscribe to routes: %w", err), f.Close())
	}
	return f, nil
}

func subscribeRoutes(fd int) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, nlconn.EventBuffer); err != nil {
		return fmt.Errorf("widen receive buffer: %w", err)
	}
	for _, group := range []int{
		unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH, unix.RTNLGRP_NEXTHOP, unix.RTNLGRP_IPV4_IFADDR,
		unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE,
	} {
		if err := unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, group); err != nil {
			return err
		}
	}
	return nil
}

// Close ends the feed.
func (f *Feed) Close() error { return errors.Join(f.events.Close(), f.asks.Close()) }

// Wake receives after events have come.
func (f *Feed) Wake() <-chan struct{} { return f.wake }

// Follow reads events and queues them for Deliver, until ctx ends or the socket
// fails for good.
func (f *Feed) Follow(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { f.events.Close() })
	defer stop()
	for {
		err := f.events.Drain(f.keep)
		f.mu.Lock()
		switch {
		case errors.Is(err, unix.ENOBUFS):
			f.lost = true
		case err != nil:
			f.ended = err
		}
		f.mu.Unlock()
		nlconn.Wake(f.wake)
		if err != nil && !errors.Is(err, unix.ENOBUFS) {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(nlconn.Pause):
		}
	}
}

// Take reads the pending events for Deliver: for a caller that does not Follow, but
// polls when it needs the current state.
func (f *Feed) Take() error {
	return f.events.Control(func(fd int) error {
		_, err := f.events.Empty(fd, math.MaxInt, f.keep)
		if errors.Is(err, unix.ENOBUFS) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.lost = true
			return nil
		}
		return err
	})
}

// keep appends a message to the queue.
func (f *Feed) keep(piece []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.bytes+len(piece) > nlconn.QueueMax {
		f.lost = true
		return
	}
	if len(f.queue) == 0 {
		f.since = time.Now()
	}
	f.queue = append(f.queue, append([]byte(nil), piece...))
	f.bytes += len(piece)
}

// Behind is how long events have been waiting to be delivered without a pause; zero
// if there are none.
func (f *Feed) Behind() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.queue) == 0 {
		return 0
	}
	return time.Since(f.since)
}

// Deliver passes the queued events, at most that many messages, to the sink. more
// reports that others are left. After ErrEventsLost only a Dump shows the current
// state.
func (f *Feed) Deliver(ctx context.Context, sink Sink, most int) (more bool, err error) {
	f.mu.Lock()
	if f.lost {
		f.lost, f.queue, f.bytes = false, nil, 0
		f.mu.Unlock()
		return false, nlconn.ErrEventsLost
	}
	n := min(most, len(f.queue))
	batch := f.queue[:n]
	f.queue = f.queue[n:]
	for _, piece := range batch {
		f.bytes -= len(piece)
	}
	more, err = len(f.queue) > 0, f.ended
	f.mu.Unlock()
	if err != nil {
		return false, fmt.Errorf("read netlink events: %w", err)
	}
	rules := false
	for _, piece := range batch {
		for h, b := range nlconn.Messages(piece) {
			rules = f.take(h, b, sink) || rules
		}
	}
	if rules {
		if err := f.rules(ctx, sink); err != nil {
			return more, err
		}
	}
	return more, nil
}

// take passes one message to the sink; true if it is of a rule. An unreadable
// message is skipped: it is of a kind that is not mirrored.
func (f *Feed) take(h unix.NlMsghdr, b []byte, sink Sink) bool {
	switch h.Type {
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		if ParseRoute(b, &f.route) == nil && !f.route.Cached {
			change := state.RouteDeleted
			if h.Type == unix.RTM_NEWROUTE {
				change = routeChange(h.Flags)
			}
			sink.Route(&f.route, change)
		}
	case unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH:
		f.takeNeighbour(h.Type == unix.RTM_NEWNEIGH, b, sink)
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		f.takeLink(h.Type == unix.RTM_NEWLINK, b, sink)
	case unix.RTM_NEWNEXTHOP:
		if o, err := parseObject(b); err == nil {
			sink.Object(o)
		}
	case unix.RTM_DELNEXTHOP:
		if o, err := parseObject(b); err == nil {
			sink.ObjectGone(o.ID)
		}
	case unix.RTM_DELADDR:
		// the kernel removes IPv4 routes that prefer this source address without an
		// event
		sink.RoutesMayBeGone()
	case unix.RTM_NEWRULE, unix.RTM_DELRULE:
		return true
	}
	return false
}

func (f *Feed) takeNeighbour(isNew bool, b []byte, sink Sink) {
	if len(b) == 0 {
		return
	}
	if b[0] == unix.AF_BRIDGE {
		e, err := parseBridgeEntry(b)
		switch {
		case err != nil || e.Bridge == 0:
		case isNew:
			sink.BridgeEntry(e)
		default:
			sink.BridgeEntryGone(e)
		}
		return
	}
	n, err := parseNeighbour(b)
	switch {
	case err != nil || n.Proxy:
	case isNew:
		sink.Neighbour(n)
	default:
		sink.NeighbourGone(n)
	}
}

// takeLink skips bridges' messages about their ports (family AF_BRIDGE).
func (f *Feed) takeLink(isNew bool, b []byte, sink Sink) {
	if len(b) == 0 || b[0] != unix.AF_UNSPEC {
		return
	}
	l, err := parseLink(b)
	switch {
	case err != nil:
	case isNew:
		if f.netdev != nil {
			l.XDPTarget = driver.XDPFeatures(f.netdev, l.Index)&driver.XDPTransmit != 0
		}
		sink.Link(l)
	default:
		sink.LinkGone(l.Index)
	}
}

// Dump passes all objects to the sink: links, bridge entries, next hop objects,
// neighbours, the routes of all tables, and rules. Queued events from before it are
// delivered after it, which does no harm.
func (f *Feed) Dump(ctx context.Context, sink Sink) error {
	return f.list(ctx, sink, []dump{
		{"links", unix.RTM_GETLINK, make([]byte, unix.SizeofIfInfomsg)},
		{"bridge entries", unix.RTM_GETNEIGH, nlconn.Head(unix.AF_BRIDGE, unix.SizeofNdMsg)},
		{"next hop objects", unix.RTM_GETNEXTHOP, make([]byte, 8)},
		{"neighbours", unix.RTM_GETNEIGH, nlconn.Head(unix.AF_INET, unix.SizeofNdMsg)},
		{"neighbours", unix.RTM_GETNEIGH, nlconn.Head(unix.AF_INET6, unix.SizeofNdMsg)},
		{"routes", unix.RTM_GETROUTE, nlconn.Head(unix.AF_INET, unix.SizeofRtMsg)},
		{"routes", unix.RTM_GETROUTE, nlconn.Head(unix.AF_INET6, unix.SizeofRtMsg)},
	})
}

// DumpLinks is Dump without routes: for a caller that queries routes one by one, and
// needs events of changes.
func (f *Feed) DumpLinks(ctx context.Context, sink Sink) error {
	return f.list(ctx, sink, []dump{
		{"links", unix.RTM_GETLINK, make([]byte, unix.SizeofIfInfomsg)},
		{"next hop objects", unix.RTM_GETNEXTHOP, make([]byte, 8)},
		{"neighbours", unix.RTM_GETNEIGH, nlconn.Head(unix.AF_INET, unix.SizeofNdMsg)},
		{"neighbours", unix.RTM_GETNEIGH, nlconn.Head(unix.AF_INET6, unix.SizeofNdMsg)},
	})
}

// listing is one dump request.
type dump struct {
	what string
	kind uint16
	body []byte
}

// list passes the answers, and at last the rules, to the sink.
func (f *Feed) list(ctx context.Context, sink Sink, all []dump) error {
	use := func(kind uint16, b []byte) error {
		f.take(unix.NlMsghdr{Type: kind, Flags: unix.NLM_F_APPEND}, b, sink)
		return nil
	}
	for _, d := range all {
		// an object that is reported twice does no harm; for routes the kernel does
		// not report whether some are missing
		err := f.asks.Whole(ctx, d.kind, d.body, func() {}, use)
		if errors.Is(err, unix.EOPNOTSUPP) {
			continue // a kernel without bridges, or without next hop objects
		}
		if err != nil {
			return fmt.Errorf("list %s: %w", d.what, err)
		}
	}
	return f.rules(ctx, sink)
}

func (f *Feed) rules(ctx context.Context, sink Sink) error {
	var rules []state.KernelRule
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		others := len(rules)
		begin := func() { rules = rules[:others] }
		err := f.asks.Whole(ctx, unix.RTM_GETRULE, nlconn.Head(family, 12), begin, func(_ uint16, b []byte) error {
			r, err := parseRule(b)
			rules = append(rules, r)
			return err
		})
		if err != nil {
			return fmt.Errorf("list rules: %w", err)
		}
	}
	sink.Rules(rules)
	return nil
}
