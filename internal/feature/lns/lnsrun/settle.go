package lnsrun

import (
	"bytes"
	"net/netip"

	"weft/internal/slowpath"
)

// message is an outgoing message of the engine: to a peer, or to the host's stack.
type message struct {
	here, peer netip.AddrPort
	access     int
	own        bool // an ICMP error of this router
	bytes      []byte
}

// Send, Deliver, Reply, Authenticate and Dial are the engine's backend. The engine calls
// them in the loop; none of them blocks.
func (s *subscribers) Send(here, peer netip.AddrPort, b []byte) {
	s.said = append(s.said, message{here: here, peer: peer, bytes: b})
}

func (s *subscribers) Deliver(id int, ip []byte) {
	s.said = append(s.said, message{access: id, bytes: bytes.Clone(ip)}) // the buffer is used again for the next packet
}

func (s *subscribers) Reply(id int, ip []byte) {
	s.said = append(s.said, message{access: id, bytes: ip, own: true})
}

// settle carries out what cannot wait: it first writes changes of sessions to datapath
// and routes, then sends the engine's messages. So a subscriber whose session is up by
// the last message can send at once, and a subscriber whose session is over no longer
// holds ids or addresses that another session may get.
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
				_ = t.device.Put(slowpath.Packet{Bytes: m.bytes, Local: m.own}) // dropped like any packet that the stack rejects
			}
		}
	}
	clear(s.said)
	s.said = s.said[:0]
}
