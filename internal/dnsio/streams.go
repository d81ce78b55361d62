package dnsio

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

const (
	streamsMost = 256 // connections to one address
	streamsHost = 16  // of them of one client's address
)

// stream is a TCP connection of a client.
type stream struct {
	conn   net.Conn
	client netip.Addr
	since  time.Time // when it asked last
	busy   bool      // its question is being answered
}

// streams are the connections to one address. When there is no room, the one that
// has been idle for longest is closed: of the client itself if it has its share,
// else of the client that has most. One that has sent half a question is idle.
type streams struct {
	mu     sync.Mutex
	open   map[*stream]bool
	closed bool
}

// add takes a connection; nil: there is no room.
func (s *streams) add(conn net.Conn, client netip.Addr) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	counts := map[netip.Addr]int{}
	for one := range s.open {
		counts[one.client]++
	}
	if counts[client] >= streamsHost && !s.evict(func(a netip.Addr) bool { return a == client }) {
		return nil
	}
	if len(s.open) >= streamsMost {
		most := 0
		for _, n := range counts {
			most = max(most, n)
		}
		if !s.evict(func(a netip.Addr) bool { return counts[a] == most }) && !s.evict(func(netip.Addr) bool { return true }) {
			return nil
		}
	}
	if s.open == nil {
		s.open = map[*stream]bool{}
	}
	one := &stream{conn: conn, client: client, since: time.Now()}
	s.open[one] = true
	return one
}

// evict closes the connection of those clients that has been idle for longest.
func (s *streams) evict(of func(netip.Addr) bool) bool {
	var idlest *stream
	for one := range s.open {
		if of(one.client) && !one.busy && (idlest == nil || one.since.Before(idlest.since)) {
			idlest = one
		}
	}
	if idlest == nil {
		return false
	}
	_ = idlest.conn.Close()
	delete(s.open, idlest)
	return true
}

// busy notes that a question is being answered, or has been.
func (s *streams) busy(one *stream, is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one.busy = is
	if is {
		one.since = time.Now()
	}
}

// remove closes a connection.
func (s *streams) remove(one *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = one.conn.Close()
	delete(s.open, one)
}

// close closes all; no more come.
func (s *streams) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for one := range s.open {
		_ = one.conn.Close()
	}
}
