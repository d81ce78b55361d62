package dnsio

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/miekg/dns"

	"weft/internal/task"
)

// acceptPause is how long a listener waits after an error, as when the process has
// no file descriptors left.
const acceptPause = 100 * time.Millisecond

func (s *Server) serveUDP(ctx context.Context, l *listener) {
	b := make([]byte, queryMost)
	for {
		n, from, err := l.udp.ReadFromUDPAddrPort(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			task.Pause(ctx, acceptPause)
			continue
		}
		client := from.Addr().Unmap()
		if !s.allowed(client) { // the answer is REFUSED at most: it takes no time
			s.reply(l, from, s.answer(ctx, client, b[:n], true))
			continue
		}
		if !s.asked.take(client) {
			continue // the client asks again
		}
		question := append([]byte(nil), b[:n]...)
		l.tasks.Go(func() {
			defer s.asked.release(client)
			s.reply(l, from, s.answer(ctx, client, question, true))
		})
	}
}

func (s *Server) reply(l *listener, to netip.AddrPort, answer []byte) {
	if answer == nil {
		return
	}
	_ = l.udp.SetWriteDeadline(time.Now().Add(udpWrite))
	_, _ = l.udp.WriteToUDPAddrPort(answer, to) // lost like any datagram
}

func (s *Server) serveTCP(ctx context.Context, l *listener) {
	for {
		conn, err := l.tcp.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			task.Pause(ctx, acceptPause)
			continue
		}
		from, err := netip.ParseAddrPort(conn.RemoteAddr().String())
		client := from.Addr().Unmap()
		if err != nil || !s.allowed(client) {
			_ = conn.Close()
			continue
		}
		one := l.streams.add(conn, client)
		if one == nil {
			_ = conn.Close()
			continue
		}
		l.tasks.Go(func() {
			defer l.streams.remove(one)
			s.serveStream(ctx, l, one)
		})
	}
}

// serveStream answers the questions on a connection, one after the other, until it
// is idle for too long, or closed.
func (s *Server) serveStream(ctx context.Context, l *listener, one *stream) {
	for range tcpQueries {
		question, err := readQuestion(one.conn)
		if err != nil || !s.asked.take(one.client) {
			return
		}
		l.streams.busy(one, true)
		answer := s.answer(ctx, one.client, question, false)
		s.asked.release(one.client)
		l.streams.busy(one, false)
		if answer == nil || len(answer) > dns.MaxMsgSize {
			return
		}
		_ = one.conn.SetWriteDeadline(time.Now().Add(tcpIdle))
		if _, err := one.conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil {
			return
		}
	}
}

var errLong = errors.New("the message is too long for a query")

func readQuestion(conn net.Conn) ([]byte, error) {
	if err := conn.SetReadDeadline(time.Now().Add(tcpIdle)); err != nil {
		return nil, err
	}
	var length [2]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint16(length[:])
	if n > queryMost {
		return nil, errLong
	}
	b := make([]byte, n)
	_, err := io.ReadFull(conn, b)
	return b, err
}

// answer returns the bytes of the answer to a message, nil if there is none.
func (s *Server) answer(ctx context.Context, client netip.Addr, b []byte, udp bool) (answer []byte) {
	s.guard.Do("DNS message", b, func() {
		m, refused := accept(b)
		switch {
		case m == nil:
			return
		case !refused:
			m = s.handle(ctx, client, m, udp)
		case !s.allowed(client):
			return
		}
		if m == nil {
			return
		}
		if packed, err := m.Pack(); err == nil {
			answer = packed
		}
	})
	return answer
}

// accept reads a message, or gives the answer to one that is none of a client;
// nil: there is none.
func accept(b []byte) (m *dns.Msg, refused bool) {
	if len(b) < 12 {
		return nil, false
	}
	word := func(i int) uint16 { return binary.BigEndian.Uint16(b[2*i:]) }
	header := dns.Header{Id: word(0), Bits: word(1), Qdcount: word(2), Ancount: word(3), Nscount: word(4), Arcount: word(5)}
	code := dns.RcodeFormatError
	switch dns.DefaultMsgAcceptFunc(header) {
	case dns.MsgIgnore:
		return nil, false
	case dns.MsgRejectNotImplemented:
		code = dns.RcodeNotImplemented
	case dns.MsgAccept:
		m = new(dns.Msg)
		if m.Unpack(b) == nil {
			return m, false
		}
	}
	m = new(dns.Msg)
	m.Id, m.Response, m.Opcode, m.Rcode = header.Id, true, int(header.Bits>>11)&0xf, code
	m.RecursionDesired = header.Bits&(1<<8) != 0
	return m, true
}
