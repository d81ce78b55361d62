package lns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"weft/internal/lab/probe/lac"
	"weft/internal/state"
)

// Tunnel switching: sessions of another server's subscribers come from the left host
// as all others, and are switched to the right one in a tunnel of their own.

// The tunnel to the other server, and how its sessions are numbered.
const (
	switchTunnel = 2
	switchFirst  = 32768
)

func forwardCases(add func(name, about, unit string, less bool, m measurement)) {
	for _, n := range counts() {
		for _, length := range []int{64, 1400} {
			add(fmt.Sprintf("forward%d", length), fmt.Sprintf("packets of %d bytes from one tunnel into another, all sessions in turn, in a second of the server's work", length), "Mpps", false,
				measurement{kind: packets, length: length, sessions: n, switched: true})
		}
	}
}

// realm is what the logins end with that belong to the other server, far where that is.
const realm = "@far"

var far = netip.AddrPortFrom(right.Host[1].Addr(), 1701)

// serveBehind makes the right host that server, for control messages.
func (r *topology) serveBehind() error {
	return r.Right.Do(func() error {
		conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(far))
		if err != nil {
			return fmt.Errorf("open the other server's socket: %w", err)
		}
		_ = conn.SetReadBuffer(16 << 20)
		r.behind = lac.ServeBehind(conn)
		r.closers = append(r.closers, conn.Close)
		return nil
	})
}

// forwarded is the number of million frames that arrive at the other server in a
// second of this one's work. Sessions that were written into tables, without
// negotiation, are removed here afterwards.
func (m *Measurer) forwarded(ctx context.Context, s subject, c measurement) (v float64, err error) {
	negotiated := s.name != "weft-tables"
	r, err := m.topology(ctx, s, c.sessions, true, negotiated)
	if err != nil {
		return 0, err
	}
	burst := time.Duration(m.o.Seconds / 3 * float64(time.Second))
	if negotiated {
		return r.packets(ctx, c, burst)
	}
	defer func() { err = errors.Join(err, r.tables.endHere(c.sessions)) }()
	if err := r.tables.sendOn(c.sessions); err != nil {
		return 0, err
	}
	return r.packets(ctx, c, burst)
}

// endHere is the reverse of sendOn.
func (t *tables) endHere(n int) error {
	var others []uint16
	for i := range n {
		others = append(others, uint16(switchFirst+i))
	}
	_, err := t.fill(n)
	return errors.Join(err, t.subscribers.Remove([]uint16{switchTunnel}, others))
}

// sendOn switches sessions that were terminated here.
func (t *tables) sendOn(n int) error {
	tunnels := []state.L2TPTunnel{{Local: switchTunnel, Remote: switchTunnel, LocalAddr: netip.AddrPortFrom(right.Router[1].Addr(), here.Port()), Peer: far}}
	var put []state.L2TPSession
	for i := range n {
		id, other := uint16(i+1), uint16(switchFirst+i)
		put = append(put, state.L2TPSession{Local: id, Remote: id, Tunnel: 1, SwitchedTo: other},
			state.L2TPSession{Local: other, Remote: other, Tunnel: switchTunnel, SwitchedTo: id, Trusted: true})
	}
	return t.subscribers.Put(tunnels, put)
}
