package probe

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"
)

// FlowOptions say which datagrams make up many UDP flows: one each.
type FlowOptions struct {
	From     netip.Prefix   // sources: one address in each /64 of it
	Bindings int            // sources, with their ports
	Each     int            // destination ports of each source, from that of To on
	To       netip.AddrPort // an answer is not needed
	Rate     int            // datagrams a second
}

const (
	portsOfOne = 250  // ports of one source address
	firstPort  = 4000 // of those
	flowBatch  = 64   // datagrams in one system call
)

// source returns the address that has the binding of a number.
func (o FlowOptions) source(i int) netip.Addr {
	a := o.From.Masked().Addr().As16()
	high := binary.BigEndian.Uint64(a[:]) + uint64(i/portsOfOne)
	binary.BigEndian.PutUint64(a[:], high)
	a[15] = 1
	return netip.AddrFrom16(a)
}

// Flows sends them, and gives how many datagrams those were. The sources need
// not be this host's.
func Flows(ctx context.Context, o FlowOptions) (sent int, err error) {
	if o.Bindings < 1 || o.Each < 1 || o.Rate < 1 || !o.From.Addr().Is6() || o.From.Bits() > 64 || (o.Bindings-1)/portsOfOne>>(64-max(o.From.Bits(), 32)) != 0 {
		return 0, fmt.Errorf("%d bindings do not fit into %s with %d ports for each /64", o.Bindings, o.From, portsOfOne)
	}
	if last := int(o.To.Port()) + o.Each - 1; last > 65535 {
		return 0, fmt.Errorf("%d ports from %d on: there are no such", o.Each, o.To.Port())
	}
	begin := time.Now()
	for p := range min(portsOfOne, o.Bindings) {
		n, err := o.fromPort(ctx, begin, sent, p)
		sent += n
		if err != nil {
			return sent, err
		}
	}
	return sent, nil
}

// fromPort sends the flows of one port of all sources.
func (o FlowOptions) fromPort(ctx context.Context, begin time.Time, before, p int) (sent int, err error) {
	conn, err := freebound(ctx, firstPort+p)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	packets := ipv6.NewPacketConn(conn)
	var batch []ipv6.Message
	flush := func() error {
		for len(batch) > 0 {
			n, err := packets.WriteBatch(batch, 0)
			if err != nil {
				return fmt.Errorf("send: %w", err)
			}
			sent, batch = sent+n, batch[n:]
		}
		batch = nil
		// as many as may have been sent until now, no more
		due := begin.Add(time.Duration(float64(before+sent) / float64(o.Rate) * float64(time.Second)))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Until(due)):
			return nil
		}
	}
	for i := p; i < o.Bindings; i += portsOfOne {
		control := (&ipv6.ControlMessage{Src: o.source(i).AsSlice()}).Marshal()
		for each := range o.Each {
			to := &net.UDPAddr{IP: o.To.Addr().AsSlice(), Port: int(o.To.Port()) + each}
			batch = append(batch, ipv6.Message{Buffers: [][]byte{[]byte("weft")}, OOB: control, Addr: to})
			if len(batch) == flowBatch {
				if err := flush(); err != nil {
					return sent, err
				}
			}
		}
	}
	return sent, flush()
}

// freebound returns a socket of a port that may send from any address.
func freebound(ctx context.Context, port int) (net.PacketConn, error) {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		if failed := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_IPV6, unix.IPV6_FREEBIND, 1) }); failed != nil {
			return failed
		}
		return err
	}}
	conn, err := config.ListenPacket(ctx, "udp6", fmt.Sprintf("[::]:%d", port))
	if err != nil {
		return nil, fmt.Errorf("open port %d: %w", port, err)
	}
	return conn, nil
}
