// Package l2tp is the Layer Two Tunneling Protocol, version 2 (RFC 2661), as
// plain values: its header, its control messages and their attributes.
package l2tp

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Port is where L2TP servers listen (RFC 2661 section 8.1).
const Port = 1701

// Bits of the first word (section 3.1).
const (
	flagControl  = 0x8000
	flagLength   = 0x4000
	flagSequence = 0x0800
	flagOffset   = 0x0200
	flagPriority = 0x0100
	versionMask  = 0x000f
	version      = 2
)

// ControlHeader is the length of the header of a control message, DataHeader
// that of the data messages that AppendData writes.
const (
	ControlHeader = 12
	DataHeader    = 6
)

// Header is what stands in front of every message (section 3.1).
type Header struct {
	Control   bool
	Priority  bool
	Sequenced bool // Ns and Nr are there
	Tunnel    uint16
	Session   uint16
	Ns, Nr    uint16
}

var (
	errShort   = errors.New("read L2TP header: the message is cut short")
	errVersion = errors.New("read L2TP header: not version 2")
	errControl = errors.New("read L2TP header: a control message needs length and sequence numbers, and no offset")
	errLength  = errors.New("read L2TP header: its length is not that of the message")
)

// Parse reads a header and gives what follows it.
func Parse(b []byte) (h Header, rest []byte, err error) {
	if len(b) < DataHeader {
		return h, nil, errShort
	}
	flags := binary.BigEndian.Uint16(b)
	if flags&versionMask != version {
		return h, nil, errVersion
	}
	h.Control, h.Sequenced, h.Priority = flags&flagControl != 0, flags&flagSequence != 0, flags&flagPriority != 0
	if h.Control && flags&(flagLength|flagSequence|flagOffset|flagPriority) != flagLength|flagSequence {
		return h, nil, errControl
	}
	at := 2
	if flags&flagLength != 0 {
		n := int(binary.BigEndian.Uint16(b[at:]))
		if n > len(b) || n < DataHeader+2 {
			return h, nil, errLength
		}
		b = b[:n] // what follows is padding of the link below
		at += 2
	}
	if len(b) < at+4 {
		return h, nil, errShort
	}
	h.Tunnel, h.Session = binary.BigEndian.Uint16(b[at:]), binary.BigEndian.Uint16(b[at+2:])
	at += 4
	if h.Sequenced {
		if len(b) < at+4 {
			return h, nil, errShort
		}
		h.Ns, h.Nr = binary.BigEndian.Uint16(b[at:]), binary.BigEndian.Uint16(b[at+2:])
		at += 4
	}
	if flags&flagOffset != 0 {
		if len(b) < at+2 {
			return h, nil, errShort
		}
		at += 2 + int(binary.BigEndian.Uint16(b[at:]))
		if len(b) < at {
			return h, nil, errShort
		}
	}
	return h, b[at:], nil
}

// AppendData writes the header of a data message without sequence numbers, and
// the PPP frame behind it.
func AppendData(b []byte, tunnel, session uint16, frame []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, version)
	b = binary.BigEndian.AppendUint16(b, tunnel)
	b = binary.BigEndian.AppendUint16(b, session)
	return append(b, frame...)
}

// AppendSequenced is AppendData with a sequence number (section 5.4); Nr is
// reserved in data messages.
func AppendSequenced(b []byte, tunnel, session, ns uint16, frame []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, flagSequence|version)
	b = binary.BigEndian.AppendUint16(b, tunnel)
	b = binary.BigEndian.AppendUint16(b, session)
	b = binary.BigEndian.AppendUint16(b, ns)
	b = binary.BigEndian.AppendUint16(b, 0)
	return append(b, frame...)
}

// Control is a whole control message; without AVPs it is a Zero-Length Body
// acknowledgement (section 5.8).
type Control struct {
	Tunnel, Session uint16
	Ns, Nr          uint16
	Body            []byte // AVPs, see Message.Marshal
}

// Marshal writes the message.
func (c Control) Marshal() []byte {
	b := make([]byte, 0, ControlHeader+len(c.Body))
	b = binary.BigEndian.AppendUint16(b, flagControl|flagLength|flagSequence|version)
	b = binary.BigEndian.AppendUint16(b, uint16(ControlHeader+len(c.Body)))
	b = binary.BigEndian.AppendUint16(b, c.Tunnel)
	b = binary.BigEndian.AppendUint16(b, c.Session)
	b = binary.BigEndian.AppendUint16(b, c.Ns)
	b = binary.BigEndian.AppendUint16(b, c.Nr)
	return append(b, c.Body...)
}

func (h Header) String() string {
	kind := "data"
	if h.Control {
		kind = "control"
	}
	return fmt.Sprintf("%s tunnel %d session %d ns %d nr %d", kind, h.Tunnel, h.Session, h.Ns, h.Nr)
}
