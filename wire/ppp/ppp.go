// Package ppp is the Point-to-Point Protocol (RFC 1661) as plain values:
// frames, the packets of its control protocols and their options, and the
// arithmetic of its authentication protocols.
package ppp

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Protocol says what a frame carries (RFC 1661 section 2).
type Protocol uint16

const (
	IPv4   Protocol = 0x0021
	IPv6   Protocol = 0x0057
	IPCP   Protocol = 0x8021
	IPV6CP Protocol = 0x8057
	LCP    Protocol = 0xc021
	PAP    Protocol = 0xc023
	CHAP   Protocol = 0xc223
)

func (p Protocol) String() string {
	switch p {
	case IPv4:
		return "IPv4"
	case IPv6:
		return "IPv6"
	case IPCP:
		return "IPCP"
	case IPV6CP:
		return "IPV6CP"
	case LCP:
		return "LCP"
	case PAP:
		return "PAP"
	case CHAP:
		return "CHAP"
	}
	return fmt.Sprintf("protocol %#04x", uint16(p))
}

var errFrame = errors.New("read PPP frame: cut short")

// ParseFrame reads the protocol of a frame, with or without address and
// control bytes (RFC 1662 section 3.1), the protocol of one byte or two
// (RFC 1661 section 6.5).
func ParseFrame(b []byte) (Protocol, []byte, error) {
	if len(b) >= 2 && b[0] == 0xff && b[1] == 0x03 {
		b = b[2:]
	}
	switch {
	case len(b) >= 1 && b[0]&1 == 1:
		return Protocol(b[0]), b[1:], nil
	case len(b) >= 2 && b[1]&1 == 1:
		return Protocol(binary.BigEndian.Uint16(b)), b[2:], nil
	case len(b) >= 2:
		return 0, nil, fmt.Errorf("read PPP frame: %#04x is no protocol", binary.BigEndian.Uint16(b))
	}
	return 0, nil, errFrame
}

// FrameHeader is how much AppendFrame puts in front of a packet.
const FrameHeader = 4

// AppendFrame writes a frame with address and control bytes, which every
// receiver takes.
func AppendFrame(b []byte, p Protocol, packet []byte) []byte {
	b = append(b, 0xff, 0x03, byte(p>>8), byte(p))
	return append(b, packet...)
}

// Code says what a packet of a control protocol does (RFC 1661 section 5).
type Code uint8

const (
	ConfigureRequest Code = 1
	ConfigureAck     Code = 2
	ConfigureNak     Code = 3
	ConfigureReject  Code = 4
	TerminateRequest Code = 5
	TerminateAck     Code = 6
	CodeReject       Code = 7
	ProtocolReject   Code = 8
	EchoRequest      Code = 9
	EchoReply        Code = 10
	DiscardRequest   Code = 11
	Identification   Code = 12 // RFC 1570
	TimeRemaining    Code = 13 // RFC 1570
)

func (c Code) String() string {
	names := [...]string{
		"", "Configure-Request", "Configure-Ack", "Configure-Nak", "Configure-Reject", "Terminate-Request", "Terminate-Ack", "Code-Reject",
		"Protocol-Reject", "Echo-Request", "Echo-Reply", "Discard-Request", "Identification", "Time-Remaining",
	}
	if c == 0 || int(c) >= len(names) {
		return fmt.Sprintf("code %d", uint8(c))
	}
	return names[c]
}

// Codes of PAP (RFC 1334 section 2.2) and CHAP (RFC 1994 section 4).
const (
	PAPRequest Code = 1
	PAPAck     Code = 2
	PAPNak     Code = 3

	CHAPChallenge Code = 1
	CHAPResponse  Code = 2
	CHAPSuccess   Code = 3
	CHAPFailure   Code = 4
)

// Packet is a packet of a control or authentication protocol.
type Packet struct {
	Code Code
	ID   uint8
	Data []byte
}

const packetHeader = 4

// ParsePacket reads a packet; bytes behind its length are padding.
func ParsePacket(b []byte) (Packet, error) {
	if len(b) < packetHeader {
		return Packet{}, errors.New("read PPP packet: cut short")
	}
	n := int(binary.BigEndian.Uint16(b[2:]))
	if n < packetHeader || n > len(b) {
		return Packet{}, fmt.Errorf("read PPP packet: its length %d does not fit", n)
	}
	return Packet{Code(b[0]), b[1], b[packetHeader:n:n]}, nil
}

// Marshal writes the packet.
func (p Packet) Marshal() []byte {
	b := make([]byte, packetHeader, packetHeader+len(p.Data))
	b[0], b[1] = byte(p.Code), p.ID
	binary.BigEndian.PutUint16(b[2:], uint16(packetHeader+len(p.Data)))
	return append(b, p.Data...)
}

// Option is a configuration option of LCP or a network control protocol.
type Option struct {
	Type uint8
	Data []byte
}

// Options of LCP (RFC 1661 section 6).
const (
	OptMRU      = 1
	OptACCM     = 2
	OptAuth     = 3
	OptQuality  = 4
	OptMagic    = 5
	OptPFC      = 7
	OptACFC     = 8
	OptCallback = 13
	OptMRRU     = 17
	OptEndpoint = 19
)

// Options of IPCP (RFC 1332, RFC 1877) and IPV6CP (RFC 5072 section 4).
const (
	OptAddresses    = 1 // of RFC 1172, no more used
	OptCompression  = 2
	OptAddress      = 3
	OptPrimaryDNS   = 129
	OptPrimaryNBNS  = 130
	OptSecondaryDNS = 131
	OptInterfaceID  = 1
)

// ParseOptions reads the data of a Configure packet.
func ParseOptions(b []byte) ([]Option, error) {
	var list []Option
	for len(b) > 0 {
		if len(b) < 2 || int(b[1]) < 2 || int(b[1]) > len(b) {
			return nil, errors.New("read PPP options: a length does not fit")
		}
		n := int(b[1])
		list = append(list, Option{b[0], b[2:n:n]})
		b = b[n:]
	}
	return list, nil
}

// MarshalOptions writes options.
func MarshalOptions(list []Option) []byte {
	var b []byte
	for _, o := range list {
		b = append(b, o.Type, uint8(2+len(o.Data)))
		b = append(b, o.Data...)
	}
	return b
}
