// Package netfilter is the kernel's connection tracking, the nftables ruleset with
// its sets, and the packets that the ruleset refuses.
package netfilter

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"weft/internal/kernel/nlconn"
	"weft/internal/kernel/rtnetlink"
	"weft/internal/state"
	"weft/internal/task"
)

// Conntrack queries the kernel's connection tracking, and receives events when
// connections end and when the ruleset changes. Queries belong to one goroutine.
type Conntrack struct {
	asks   *nlconn.Conn
	routes *nlconn.Conn // what the kernel would route by
	ends   *netfilterEvents
	rules  *netfilterEvents
}

// OpenConntrack opens connection tracking. Follow must run for its events to be
// read.
func OpenConntrack() (*Conntrack, error) {
	c := &Conntrack{}
	var err error
	if c.asks, err = nlconn.Open(unix.NETLINK_NETFILTER); err != nil {
		return nil, fmt.Errorf("open netfilter netlink: %w", err)
	}
	if err := c.asks.Control(nlconn.Widen); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if c.routes, err = nlconn.OpenRoute(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if c.ends, err = subscribeNetfilter(groupConntrackDestroy, true); err != nil {
		return nil, errors.Join(fmt.Errorf("subscribe to connections: %w", err), c.Close())
	}
	if c.rules, err = subscribeNetfilter(groupNFTables, false); err != nil {
		return nil, errors.Join(fmt.Errorf("subscribe to the ruleset: %w", err), c.Close())
	}
	return c, nil
}

// LoadConntrack has the kernel load connection tracking, if that is a module: it does
// so for the first request of any kind. This one asks for a connection that cannot be.
func LoadConntrack(ctx context.Context) error {
	asks, err := nlconn.Open(unix.NETLINK_NETFILTER)
	if err != nil {
		return fmt.Errorf("open netfilter netlink: %w", err)
	}
	c := &Conntrack{asks: asks}
	_, err = c.Connections(ctx, []state.FlowTuple{{}}, 0)
	if err = errors.Join(err, c.Close()); err != nil {
		return fmt.Errorf("load connection tracking: %w", err)
	}
	return nil
}

// Close closes the sockets.
func (c *Conntrack) Close() error {
	var errs []error
	for _, s := range []*nlconn.Conn{c.asks, c.routes} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	for _, n := range []*netfilterEvents{c.ends, c.rules} {
		if n != nil {
			errs = append(errs, n.socket.Close())
		}
	}
	return errors.Join(errs...)
}

// Follow reads events until ctx ends.
func (c *Conntrack) Follow(ctx context.Context) {
	var tasks task.Tasks
	for _, n := range []*netfilterEvents{c.ends, c.rules} {
		tasks.Again("events of netfilter", func() { n.follow(ctx) })
	}
	tasks.Wait()
}

// EndsWake receives after connections have ended, RulesetWake after the ruleset has
// changed.
func (c *Conntrack) EndsWake() <-chan struct{} { return c.ends.wake }

func (c *Conntrack) RulesetWake() <-chan struct{} { return c.rules.wake }

// RulesetChanged reports once that it has changed.
func (c *Conntrack) RulesetChanged() (bool, error) { return c.rules.changed() }

// Behind is how long the oldest unread event has been waiting.
func (c *Conntrack) Behind() time.Duration { return max(c.ends.behind(), c.rules.behind()) }

// Ended returns the connections that ended, from at most that many messages;
// EndsWake signals that there are more. After ErrEventsLost some are missing.
func (c *Conntrack) Ended(most int, use func(state.Connection)) error {
	queue, err := c.ends.oldest(most)
	for _, piece := range queue {
		for h, b := range nlconn.Messages(piece) {
			if h.Type != conntrackDelete {
				continue
			}
			if connection, err := parseConnection(b); err == nil {
				use(connection)
			}
		}
	}
	return err
}

// Connections returns the connection of each tuple, in either direction; Confirmed
// is not set in its status if there is none.
func (c *Conntrack) Connections(ctx context.Context, tuples []state.FlowTuple, zone uint16) ([]state.Connection, error) {
	found := make([]state.Connection, len(tuples))
	body := func(i int) []byte {
		b := append(netfilterHead(tuples[i]), tupleAttribute(ctaTupleOrig, tuples[i])...)
		if zone != 0 {
			b = append(b, nlconn.Attribute(ctaZone, nlconn.Put16(zone))...)
		}
		return b
	}
	err := c.asks.AskMany(ctx, conntrackGet, 0, len(tuples), body, func(i int, kind uint16, b []byte) error {
		if kind != conntrackNew {
			return nil // there is none
		}
		var err error
		found[i], err = parseConnection(b)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("ask for connections: %w", err)
	}
	return found, nil
}

// Keep refreshes connections, or makes them liberal. It returns those that do not
// exist any more.
func (c *Conntrack) Keep(ctx context.Context, list []state.KeptConnection) (gone []int, err error) {
	body := func(i int) []byte {
		k := list[i]
		b := append(netfilterHead(k.Orig), tupleAttribute(ctaTupleOrig, k.Orig)...)
		if k.Timeout > 0 {
			b = append(b, nlconn.Attribute(ctaTimeout, nlconn.Put32(uint32(k.Timeout/time.Second)))...)
		}
		if k.Zone != 0 {
			b = append(b, nlconn.Attribute(ctaZone, nlconn.Put16(k.Zone))...)
		}
		if k.Assured {
			b = append(b, nlconn.Attribute(ctaStatus, nlconn.Put32(state.ConnectionConfirmed|state.ConnectionSeenReply|state.ConnectionAssured))...)
		}
		if k.Liberal && k.Orig.Protocol == state.ProtocolTCP {
			flags := []byte{tcpLiberal, tcpLiberal} // value and mask (struct nf_ct_tcp_flags)
			b = append(b, nlconn.Nested(ctaProtoInfo, nlconn.Nested(ctaProtoInfoTCP, nlconn.Attribute(ctaTCPFlagsOrig, flags), nlconn.Attribute(ctaTCPFlagsBack, flags)))...)
		}
		return b
	}
	err = c.asks.AskMany(ctx, conntrackNew, unix.NLM_F_ACK, len(list), body, func(i int, kind uint16, b []byte) error {
		if kind == unix.NLMSG_ERROR && errors.Is(nlconn.Answered(b), unix.ENOENT) {
			gone = append(gone, i)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("keep connections: %w", err)
	}
	return gone, nil
}

// All calls use for every connection.
func (c *Conntrack) All(ctx context.Context, use func(state.Connection)) error {
	err := c.asks.Dump(ctx, conntrackGet, []byte{unix.AF_UNSPEC, 0, 0, 0}, func(_ uint16, b []byte) error {
		connection, err := parseConnection(b)
		if err == nil {
			use(connection)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("list connections: %w", err)
	}
	return nil
}

// Ways asks the kernel for the routes of packets that arrive on an interface.
func (c *Conntrack) Paths(ctx context.Context, asked []state.FlowAsk) ([]state.FlowPath, error) {
	paths := make([]state.FlowPath, len(asked))
	body := func(i int) []byte {
		a := asked[i]
		family, bits := byte(unix.AF_INET6), byte(128)
		if a.To.Is4() {
			family, bits = unix.AF_INET, 32
		}
		b := nlconn.Head(family, unix.SizeofRtMsg)
		b[1], b[2] = bits, bits
		b = append(b, nlconn.Attribute(unix.RTA_DST, a.To.AsSlice())...)
		b = append(b, nlconn.Attribute(unix.RTA_SRC, a.From.AsSlice())...)
		if a.Mark != 0 {
			b = append(b, nlconn.Attribute(unix.RTA_MARK, binary.NativeEndian.AppendUint32(nil, a.Mark))...)
		}
		return append(b, nlconn.Attribute(unix.RTA_IIF, binary.NativeEndian.AppendUint32(nil, uint32(a.Interface)))...)
	}
	var route state.KernelRoute
	err := c.routes.AskMany(ctx, unix.RTM_GETROUTE, 0, len(asked), body, func(i int, kind uint16, b []byte) error {
		if kind != unix.RTM_NEWROUTE || rtnetlink.ParseRoute(b, &route) != nil || route.Type != state.RouteUnicast || len(route.Hops) != 1 || route.Hops[0].Encap {
			return nil
		}
		paths[i] = state.FlowPath{Device: route.Hops[0].Device, Gateway: route.Hops[0].Gateway, MTU: route.MTU, Unicast: true}
		if !paths[i].Gateway.IsValid() {
			paths[i].Gateway = asked[i].To
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("ask for routes: %w", err)
	}
	return paths, nil
}
