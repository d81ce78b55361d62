package lac

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// Protocols of PPP that the subscribers speak.
const (
	ipv4 = 0x21
	lcp  = 0xc021
	pap  = 0xc023
	ipcp = 0x8021
)

// Codes of RFC 1661 section 5.
const (
	configureRequest = 1
	configureAck     = 2
	configureNak     = 3
	configureReject  = 4
	protocolReject   = 8
	echoRequest      = 9
	echoReply        = 10
)

// Send sends an IPv4 packet of a subscriber's.
func (l *LAC) Send(s *Session, ip []byte) {
	b := make([]byte, 0, 10+len(ip))
	b = append(b, 0, 2)
	b = binary.BigEndian.AppendUint16(b, s.tunnel.Peer)
	b = binary.BigEndian.AppendUint16(b, s.Peer)
	l.send(append(append(b, 0xff, 3, 0, ipv4), ip...))
}

// frame is a data packet to the server with a PPP packet in it.
func (s *Session) frame(protocol uint16, code, id byte, data []byte) []byte {
	b := make([]byte, 0, 14+len(data))
	b = append(b, 0, 2)
	b = binary.BigEndian.AppendUint16(b, s.tunnel.Peer)
	b = binary.BigEndian.AppendUint16(b, s.Peer)
	b = append(b, 0xff, 3)
	b = binary.BigEndian.AppendUint16(b, protocol)
	b = append(b, code, id)
	b = binary.BigEndian.AppendUint16(b, uint16(4+len(data)))
	return append(b, data...)
}

// request sends code 1 of a protocol; it is said again until it is answered.
func (l *LAC) request(s *Session, protocol uint16, data []byte) {
	s.ppp++
	s.last, s.sent, s.tries = s.frame(protocol, configureRequest, s.ppp, data), l.now, 0
	l.send(s.last)
}

func (l *LAC) takePPP(s *Session, b []byte) {
	b = bytes.TrimPrefix(b, []byte{0xff, 3})
	if len(b) < 6 {
		return
	}
	protocol, code, id := binary.BigEndian.Uint16(b), b[2], b[3]
	if protocol == ipv4 {
		if l.Data != nil && s.state == running {
			l.Data(s, b[2:])
		}
		return
	}
	n := int(binary.BigEndian.Uint16(b[4:]))
	if n < 4 || n > len(b)-2 {
		return
	}
	data := b[6 : 2+n]
	switch protocol {
	case lcp:
		l.takeLCP(s, code, id, data)
	case pap:
		if code == configureAck && s.state == authenticating {
			s.state = addressing
			l.request(s, ipcp, []byte{3, 6, 0, 0, 0, 0})
		}
	case ipcp:
		l.takeIPCP(s, code, id, data)
	default:
		if s.state > linking && protocol&0xc000 != 0 {
			l.send(s.frame(lcp, protocolReject, id, b[:2+n])) // RFC 1661 section 5.7
		}
	}
}

func (l *LAC) takeLCP(s *Session, code, id byte, data []byte) {
	switch code {
	case configureRequest:
		l.send(s.frame(lcp, configureAck, id, data))
		s.theirs = true
	case configureAck:
		if id == s.ppp && s.state == linking {
			s.ours = true
		}
	case configureNak, configureReject:
		if s.state == linking {
			l.request(s, lcp, nil)
		}
		return
	case echoRequest:
		l.send(s.frame(lcp, echoReply, id, []byte{0x77, 0x65, byte(s.ID >> 8), byte(s.ID)}))
		return
	}
	if s.state == linking && s.ours && s.theirs {
		s.state = authenticating
		login := fmt.Appendf(nil, "%s%05d%s", l.Prefix, s.ID, l.Realm)
		data := append([]byte{byte(len(login))}, login...)
		l.request(s, pap, append(append(data, byte(len(password))), password...))
	}
}

const password = "bench"

func (l *LAC) takeIPCP(s *Session, code, id byte, data []byte) {
	switch code {
	case configureRequest:
		l.send(s.frame(ipcp, configureAck, id, data))
		s.pppAddress = true
		if s.state == authenticating { // PAP's answer was lost: it is let in
			s.state = addressing
			l.request(s, ipcp, []byte{3, 6, 0, 0, 0, 0})
		}
	case configureNak:
		if s.state == addressing && id == s.ppp && len(data) >= 6 && data[0] == 3 {
			copy(s.Addr[:], data[2:6])
			l.request(s, ipcp, append([]byte{3, 6}, s.Addr[:]...))
		}
	case configureAck:
		if s.state == addressing && id == s.ppp && s.Addr != [4]byte{} {
			s.state, s.last = running, nil
			l.Up++
			if l.Ready != nil {
				l.Ready(s)
			}
			l.dial()
		}
	}
}
