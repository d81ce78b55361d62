package probe

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// PingOptions: Count echo requests of Size payload bytes, Interval apart, each
// waited for at most Timeout after the last was sent.
type PingOptions struct {
	Count    int
	Size     int
	Interval time.Duration
	Timeout  time.Duration
}

// pinger hides what differs between RFC 792 and RFC 4443 echoes.
type pinger struct {
	conn           *icmp.PacketConn
	request, reply icmp.Type
	protocol       int
	to             netip.Addr
	id             int
	random         *rand.ChaCha8
}

// Ping sends echo requests (RFC 792, RFC 4443 section 4.1) with random
// payloads and counts the replies that bring the payload back unharmed.
func Ping(ctx context.Context, to netip.Addr, o PingOptions, seed [32]byte) (Echo, error) {
	p, err := newPinger(to, seed)
	if err != nil {
		return Echo{}, err
	}
	defer p.conn.Close()
	stop := context.AfterFunc(ctx, func() { p.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	var e Echo
	var sum time.Duration
	for seq := range o.Count {
		if seq > 0 {
			select {
			case <-ctx.Done():
				return e, ctx.Err()
			case <-time.After(o.Interval):
			}
		}
		trip, hops, err := p.once(seq, o.Size, o.Timeout)
		e.Sent++
		if err != nil {
			e.Problem = err.Error()
			continue
		}
		e.Received++
		e.HopLimit = hops
		sum += trip
		e.Max = max(e.Max, trip)
		if e.Min == 0 || trip < e.Min {
			e.Min = trip
		}
	}
	if e.Received > 0 {
		e.Mean = sum / time.Duration(e.Received)
	}
	return e, ctx.Err()
}

func newPinger(to netip.Addr, seed [32]byte) (*pinger, error) {
	p := &pinger{to: to.Unmap(), random: rand.NewChaCha8(seed), id: os.Getpid() & 0xffff}
	var err error
	if p.to.Is4() {
		p.request, p.reply, p.protocol = ipv4.ICMPTypeEcho, ipv4.ICMPTypeEchoReply, 1
		if p.conn, err = icmp.ListenPacket("ip4:icmp", "0.0.0.0"); err == nil {
			err = p.conn.IPv4PacketConn().SetControlMessage(ipv4.FlagTTL, true)
		}
	} else {
		p.request, p.reply, p.protocol = ipv6.ICMPTypeEchoRequest, ipv6.ICMPTypeEchoReply, 58
		if p.conn, err = icmp.ListenPacket("ip6:ipv6-icmp", "::"); err == nil {
			err = p.conn.IPv6PacketConn().SetControlMessage(ipv6.FlagHopLimit, true)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open ICMP socket: %w", err)
	}
	return p, nil
}

var errNoReply = errors.New("no reply")

func (p *pinger) once(seq, size int, timeout time.Duration) (time.Duration, int, error) {
	payload := make([]byte, size)
	p.random.Read(payload)
	m := icmp.Message{Type: p.request, Body: &icmp.Echo{ID: p.id, Seq: seq & 0xffff, Data: payload}}
	wire, err := m.Marshal(nil) // the kernel fills in ICMPv6's checksum (RFC 3542 section 3.1)
	if err != nil {
		return 0, 0, err
	}
	begin := time.Now()
	if _, err := p.conn.WriteTo(wire, &net.IPAddr{IP: p.to.AsSlice(), Zone: p.to.Zone()}); err != nil {
		return 0, 0, err
	}
	if err := p.conn.SetReadDeadline(begin.Add(timeout)); err != nil {
		return 0, 0, err
	}
	buffer := make([]byte, 1<<16)
	for {
		n, hops, err := p.read(buffer)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return 0, 0, errNoReply
		}
		if err != nil {
			return 0, 0, err
		}
		trip := time.Since(begin)
		got, err := icmp.ParseMessage(p.protocol, buffer[:n])
		if err != nil || n < 8 {
			continue
		}
		if words := p.refusal(got, buffer[:n]); words != "" {
			return 0, 0, errors.New(words)
		}
		echo, ok := got.Body.(*icmp.Echo)
		if !ok || got.Type != p.reply || echo.ID != p.id || echo.Seq != seq&0xffff {
			continue
		}
		if !bytes.Equal(echo.Data, payload) {
			return 0, 0, fmt.Errorf("the reply to request %d carries other bytes", seq)
		}
		return trip, hops, nil
	}
}

// read returns one ICMP message and the TTL or hop limit it came with.
func (p *pinger) read(b []byte) (n, hops int, err error) {
	if p.to.Is4() {
		n, cm, _, err := p.conn.IPv4PacketConn().ReadFrom(b)
		if cm != nil {
			hops = cm.TTL
		}
		return n, hops, err
	}
	n, cm, _, err := p.conn.IPv6PacketConn().ReadFrom(b)
	if cm != nil {
		hops = cm.HopLimit
	}
	return n, hops, err
}

// refusal returns the words of an ICMP error that answers a packet of ours, and
// nothing for any other message.
func (p *pinger) refusal(m *icmp.Message, raw []byte) string {
	inner := raw[8:]
	header := 40
	if p.to.Is4() {
		header = 20
	}
	if len(inner) < header+8 || int(binary.BigEndian.Uint16(inner[header+4:])) != p.id {
		return ""
	}
	switch m.Type {
	case ipv4.ICMPTypeDestinationUnreachable, ipv6.ICMPTypeDestinationUnreachable:
		return fmt.Sprintf("destination unreachable, code %d", m.Code)
	case ipv4.ICMPTypeTimeExceeded, ipv6.ICMPTypeTimeExceeded:
		return "time exceeded"
	case ipv6.ICMPTypePacketTooBig:
		return "packet too big"
	case ipv4.ICMPTypeParameterProblem, ipv6.ICMPTypeParameterProblem:
		return "parameter problem"
	}
	return ""
}
