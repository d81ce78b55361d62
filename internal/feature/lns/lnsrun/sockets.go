package lnsrun

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"time"

	"weft/internal/feature/lns"
	"weft/internal/l2tpio"
	"weft/internal/subscriber"
	"weft/internal/task"
)

// listen opens and closes sockets as the sections require.
func (s *subscribers) listen(ctx context.Context, servers []subscriber.ServerSettings) {
	wanted := map[netip.AddrPort]bool{}
	for _, one := range servers {
		for _, a := range one.Listen {
			wanted[a] = true
			if s.sockets[a] != nil {
				continue
			}
			if err := s.open(ctx, a); err != nil {
				s.log.Error("cannot open the L2TP socket", "lns", one.Name, "error", err)
			}
		}
	}
	inUse := s.engine.Addresses()
	for a := range s.kept {
		switch socket := s.sockets[a]; {
		case wanted[a] || socket == nil:
		case inUse[a]: // like a client's: it accepts no new tunnel, and closes with its last one
			s.log.Warn("tunnels at an address that was removed from listen continue until they end", "address", a.String())
		default:
			_ = socket.Close()
			delete(s.sockets, a)
		}
	}
	maps.DeleteFunc(wanted, func(a netip.AddrPort, _ bool) bool { return s.sockets[a] == nil })
	s.kept = wanted
}

func (s *subscribers) open(ctx context.Context, at netip.AddrPort) error {
	socket, err := l2tpio.Open(ctx, at)
	if err == nil {
		s.take(ctx, socket)
	}
	return err
}

// datagrams is an *l2tpio.Socket.
type datagrams interface {
	LocalAddr() netip.AddrPort
	Receive(b []byte) (int, netip.AddrPort, error)
	// Send never blocks; false: the socket's buffer is full, and the datagram is dropped.
	Send(b []byte, to netip.AddrPort) bool
	Close() error
}

// largest is the size of the largest datagram, in bytes.
const largest = 65536

// take starts to read a socket.
func (s *subscribers) take(ctx context.Context, socket datagrams) {
	here, waiting := socket.LocalAddr(), newInbox()
	s.sockets[here] = socket
	s.tasks.Go(func() {
		stop := context.AfterFunc(ctx, func() { _ = socket.Close() })
		defer stop()
		defer waiting.end()
		buffer := make([]byte, largest)
		for {
			n, from, err := socket.Receive(buffer)
			if err != nil {
				return // it was closed
			}
			waiting.put(buffer[:n], from)
		}
	})
	s.tasks.Go(func() {
		for {
			batch := waiting.take()
			if len(batch) == 0 {
				return
			}
			if err := s.box.Ask(ctx, func(s *subscribers) { s.receive(here, batch) }); errors.Is(err, task.ErrEnded) || ctx.Err() != nil {
				return
			}
		}
	})
}

// receive feeds datagrams to the engine, and carries out the effects.
func (s *subscribers) receive(here netip.AddrPort, batch []datagram) {
	now := time.Now()
	for _, d := range batch {
		s.guard.Do("datagram of L2TP", d.bytes, func() { s.engine.Receive(here, d.from, d.bytes, now) })
	}
	s.settle()
}

// dialTime bounds the resolution of a server's name.
const dialTime = 10 * time.Second

// Dial resolves the name of a server, outside the loop.
func (s *subscribers) Dial(name string) {
	server, ctx := s.servers[name], s.ctx
	if switched, ok := subscriber.SwitchServer(name); ok {
		server = switched
	}
	s.tasks.Go(func() {
		target, err := lns.ServerAddress(server)
		var socket *l2tpio.Socket
		var peer netip.AddrPort
		if err == nil {
			inner, cancel := context.WithTimeout(ctx, dialTime)
			socket, peer, err = l2tpio.Dial(inner, target)
			cancel()
		}
		asked := s.box.Ask(ctx, func(s *subscribers) {
			if err != nil {
				s.engine.NotDialed(name, err.Error(), time.Now())
			} else {
				s.take(ctx, socket)
				s.engine.Dialed(name, socket.LocalAddr(), peer, time.Now())
			}
			s.settle()
		})
		if asked != nil && socket != nil {
			_ = socket.Close()
		}
	})
}

// sweepSockets closes clients' sockets without tunnels.
func (s *subscribers) sweepSockets() {
	inUse := s.engine.Addresses()
	for a, socket := range s.sockets {
		if !s.kept[a] && !inUse[a] {
			_ = socket.Close()
			delete(s.sockets, a)
		}
	}
}
