package lns

import (
	"bytes"
	"encoding/binary"
)

// Protocols of PPP that the subscribers speak.
const (
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

// frame is a data packet to the server with a PPP packet in it.
func (s *session) frame(protocol uint16, code, id byte, data []byte) []byte {
	b := make([]byte, 0, 14+len(data))
	b = append(b, 0, 2)
	b = binary.BigEndian.AppendUint16(b, s.tunnel.peer)
	b = binary.BigEndian.AppendUint16(b, s.peer)
	b = append(b, 0xff, 3)
	b = binary.BigEndian.AppendUint16(b, protocol)
	b = append(b, code, id)
	b = binary.BigEndian.AppendUint16(b, uint16(4+len(data)))
	return append(b, data...)
}

// request sends code 1 of a protocol; it is said again until it is answered.
func (l *lac) request(s *session, protocol uint16, data []byte) {
	s.ppp++
	s.last, s.sent, s.tries = s.frame(protocol, configureRequest, s.ppp, data), l.now, 0
	l.send(s.last)
}

func (l *lac) takePPP(s *session, b []byte) {
	b = bytes.TrimPrefix(b, []byte{0xff, 3})
	if len(b) < 6 {
		return
	}
	protocol, code, id := binary.BigEndian.Uint16(b), b[2], b[3]
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

func (l *lac) takeLCP(s *session, code, id byte, data []byte) {
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
		l.send(s.frame(lcp, echoReply, id, []byte{0x77, 0x65, byte(s.id >> 8), byte(s.id)}))
		return
	}
	if s.state == linking && s.ours && s.theirs {
		s.state = authenticating
		login := []byte{'s', byte('0' + s.id/10000), byte('0' + s.id/1000%10), byte('0' + s.id/100%10), byte('0' + s.id/10%10), byte('0' + s.id%10)}
		data := append([]byte{byte(len(login))}, login...)
		l.request(s, pap, append(append(data, byte(len(password))), password...))
	}
}

const password = "bench"

func (l *lac) takeIPCP(s *session, code, id byte, data []byte) {
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
			copy(s.addr[:], data[2:6])
			l.request(s, ipcp, append([]byte{3, 6}, s.addr[:]...))
		}
	case configureAck:
		if s.state == addressing && id == s.ppp && s.addr != [4]byte{} {
			s.state, s.last = running, nil
			l.up++
			l.going--
		}
	}
}
