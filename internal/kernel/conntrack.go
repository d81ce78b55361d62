package kernel

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"weft/internal/state"
)

// Conntrack asks the kernel's connection tracking, and hears when connections
// end and when the ruleset changes. Asking belongs to one goroutine.
type Conntrack struct {
	asks   *rtnl
	routes *rtnl // what the kernel would route by
	ends   *netfilterNews
	rules  *netfilterNews
}

// Conntrack opens the door to connection tracking. Follow must run for its
// news to be read.
func (k *Kernel) Conntrack() (*Conntrack, error) {
	c := &Conntrack{}
	var err error
	if c.asks, err = openNetlink(unix.NETLINK_NETFILTER); err != nil {
		return nil, fmt.Errorf("open netfilter netlink: %w", err)
	}
	if err := c.asks.control(widen); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if c.routes, err = openRtnl(); err != nil {
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

// Close ends it.
func (c *Conntrack) Close() error {
	var errs []error
	for _, s := range []*rtnl{c.asks, c.routes} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	for _, n := range []*netfilterNews{c.ends, c.rules} {
		if n != nil {
			errs = append(errs, n.socket.Close())
		}
	}
	return errors.Join(errs...)
}

// Follow reads news until ctx ends.
func (c *Conntrack) Follow(ctx context.Context) {
	var tasks sync.WaitGroup
	for _, n := range []*netfilterNews{c.ends, c.rules} {
		tasks.Go(func() { n.follow(ctx) })
	}
	tasks.Wait()
}

// EndsWake has something after connections ended, RulesetWake after the
// ruleset changed.
func (c *Conntrack) EndsWake() <-chan struct{}    { return c.ends.wake }
func (c *Conntrack) RulesetWake() <-chan struct{} { return c.rules.wake }

// RulesetChanged tells, once, that it did.
func (c *Conntrack) RulesetChanged() (bool, error) { return c.rules.changed() }

// Behind is for how long the oldest of the news has been waiting to be taken.
func (c *Conntrack) Behind() time.Duration { return max(c.ends.behind(), c.rules.behind()) }

// Ended gives the connections that ended, of as many messages at most; of more,
// EndsWake tells. After ErrNewsLost some are missing.
func (c *Conntrack) Ended(most int, use func(state.Connection)) error {
	queue, err := c.ends.oldest(most)
	for _, piece := range queue {
		for h, b := range messages(piece) {
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

// atOnce bounds the requests of one datagram to the kernel.
const atOnce = 128

// Connections gives the connection that each tuple belongs to, in either
// direction; Confirmed is not set in its status where there is none.
func (c *Conntrack) Connections(ctx context.Context, tuples []state.FlowTuple, zone uint16) ([]state.Connection, error) {
	found := make([]state.Connection, len(tuples))
	body := func(i int) []byte {
		b := append(netfilterHead(tuples[i]), tupleAttribute(ctaTupleOrig, tuples[i])...)
		if zone != 0 {
			b = append(b, attribute(ctaZone, put16(zone))...)
		}
		return b
	}
	err := c.asks.askMany(ctx, conntrackGet, 0, len(tuples), body, func(i int, kind uint16, b []byte) error {
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

// Keep has connections live on, or be liberal. It gives those that are no more.
func (c *Conntrack) Keep(ctx context.Context, list []state.KeptConnection) (gone []int, err error) {
	body := func(i int) []byte {
		k := list[i]
		b := append(netfilterHead(k.Orig), tupleAttribute(ctaTupleOrig, k.Orig)...)
		if k.Timeout > 0 {
			b = append(b, attribute(ctaTimeout, put32(uint32(k.Timeout/time.Second)))...)
		}
		if k.Zone != 0 {
			b = append(b, attribute(ctaZone, put16(k.Zone))...)
		}
		if k.Assured {
			b = append(b, attribute(ctaStatus, put32(state.ConnectionConfirmed|state.ConnectionSeenReply|state.ConnectionAssured))...)
		}
		if k.Liberal && k.Orig.Protocol == state.ProtocolTCP {
			flags := []byte{tcpLiberal, tcpLiberal} // value and mask (struct nf_ct_tcp_flags)
			b = append(b, nested(ctaProtoInfo, nested(ctaProtoInfoTCP, attribute(ctaTCPFlagsOrig, flags), attribute(ctaTCPFlagsBack, flags)))...)
		}
		return b
	}
	err = c.asks.askMany(ctx, conntrackNew, unix.NLM_F_ACK, len(list), body, func(i int, kind uint16, b []byte) error {
		if kind == unix.NLMSG_ERROR && errors.Is(answered(b), unix.ENOENT) {
			gone = append(gone, i)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("keep connections: %w", err)
	}
	return gone, nil
}

// All gives every connection that there is.
func (c *Conntrack) All(ctx context.Context, use func(state.Connection)) error {
	err := c.asks.dump(ctx, conntrackGet, []byte{unix.AF_UNSPEC, 0, 0, 0}, func(_ uint16, b []byte) error {
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

// askMany sends n requests, many in one datagram, and gives the one message
// that answers each to use: what was asked for, or the error.
func (r *rtnl) askMany(ctx context.Context, kind, flags uint16, n int, body func(int) []byte, use func(i int, kind uint16, b []byte) error) error {
	for start := 0; start < n; start += atOnce {
		if err := r.askSome(ctx, kind, flags, start, min(n, start+atOnce), body, use); err != nil {
			return err
		}
	}
	return nil
}

func (r *rtnl) askSome(ctx context.Context, kind, flags uint16, start, end int, body func(int) []byte, use func(i int, kind uint16, b []byte) error) error {
	first := r.seq + 1
	var out []byte
	for i := start; i < end; i++ {
		r.seq++
		out = append(out, request(kind, flags, r.seq, body(i))...)
	}
	err := r.control(func(fd int) error { return unix.Sendto(fd, out, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}) })
	if err != nil {
		return err
	}
	for left := end - start; left > 0; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := r.file.SetReadDeadline(time.Now().Add(answerTime)); err != nil {
			return err
		}
		piece, err := r.receive()
		if err != nil {
			return err
		}
		for h, b := range messages(piece) {
			if h.Seq-first >= uint32(end-start) {
				continue // of an earlier request
			}
			if err := use(start+int(h.Seq-first), h.Type, b); err != nil {
				return err
			}
			left--
		}
	}
	return nil
}

// Ways asks the kernel for the routes of packets that arrive on an interface.
func (c *Conntrack) Ways(ctx context.Context, asked []state.FlowAsk) ([]state.FlowWay, error) {
	ways := make([]state.FlowWay, len(asked))
	body := func(i int) []byte {
		a := asked[i]
		family, bits := byte(unix.AF_INET6), byte(128)
		if a.To.Is4() {
			family, bits = unix.AF_INET, 32
		}
		b := head(family, unix.SizeofRtMsg)
		b[1], b[2] = bits, bits
		b = append(b, attribute(unix.RTA_DST, a.To.AsSlice())...)
		b = append(b, attribute(unix.RTA_SRC, a.From.AsSlice())...)
		if a.Mark != 0 {
			b = append(b, attribute(unix.RTA_MARK, binary.NativeEndian.AppendUint32(nil, a.Mark))...)
		}
		return append(b, attribute(unix.RTA_IIF, binary.NativeEndian.AppendUint32(nil, uint32(a.Interface)))...)
	}
	var route state.KernelRoute
	err := c.routes.askMany(ctx, unix.RTM_GETROUTE, 0, len(asked), body, func(i int, kind uint16, b []byte) error {
		if kind != unix.RTM_NEWROUTE || parseRoute(b, &route) != nil || route.Type != state.RouteUnicast || len(route.Hops) != 1 || route.Hops[0].Encap {
			return nil
		}
		ways[i] = state.FlowWay{Device: route.Hops[0].Device, Gateway: route.Hops[0].Gateway, MTU: route.MTU, Unicast: true}
		if !ways[i].Gateway.IsValid() {
			ways[i].Gateway = asked[i].To
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("ask for routes: %w", err)
	}
	return ways, nil
}
