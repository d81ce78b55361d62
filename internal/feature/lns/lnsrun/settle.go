package lnsrun

import (
	"bytes"
	"net/netip"

	"weft/internal/slowpath"
)

// message is something that the engine says: to a peer, or to the stack.
type message struct {
	here, peer netip.AddrPort
	access     int
	own        bool // an error of this router's
	bytes      []byte
}

// Send, Deliver, Reply, Authenticate and Dial are what the engine needs; it calls them
// in the loop, and none of them waits.
func (s *subscribers) Send(here, peer netip.AddrPort, b []byte) {
	s.said = append(s.said, message{here: here, peer: peer, bytes: b})
}

func (s *subscribers) Deliver(id int, ip []byte) {
	s.said = append(s.said, message{access: id, bytes: bytes.Clone(ip)}) // it stands where the next one is read into
}

func (s *subscribers) Reply(id int, ip []byte) {
	s.said = append(s.said, message{access: id, bytes: ip, own: true})
}

// settle carries out what cannot wait of what the engine was fed: first datapath and
// routes become what the engine's sessions are, then what it has said goes out. Who is
// told by its last answer that its session is up may send at once, and is answered; who
// is told that it is over has nothing any more that could be another's by now.
func (s *subscribers) settle() {
	if t := s.engine.SessionDelta(); !t.Empty() {
		s.changed += len(t.Sessions) + len(t.Ended)
		s.putSessions(t)
		s.route(t)
	}
	for _, m := range s.said {
		switch {
		case m.here.IsValid():
			if socket := s.sockets[m.here]; socket != nil && !socket.Send(m.bytes, m.peer) {
				s.unsent++
			}
		default:
			if t := s.taps[s.devices[m.access]]; t != nil {
				_ = t.device.Put(slowpath.Packet{Bytes: m.bytes, Local: m.own}) // lost like any packet that the stack refuses
			}
		}
	}
	clear(s.said)
	s.said = s.said[:0]
}
