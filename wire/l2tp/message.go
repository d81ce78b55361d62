package l2tp

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// MessageType is the kind of a control message (RFC 2661 section 3.2).
type MessageType uint16

const (
	SCCRQ   MessageType = 1
	SCCRP   MessageType = 2
	SCCCN   MessageType = 3
	StopCCN MessageType = 4
	Hello   MessageType = 6
	OCRQ    MessageType = 7
	OCRP    MessageType = 8
	OCCN    MessageType = 9
	ICRQ    MessageType = 10
	ICRP    MessageType = 11
	ICCN    MessageType = 12
	CDN     MessageType = 14
	WEN     MessageType = 15
	SLI     MessageType = 16
)

func (t MessageType) String() string {
	names := map[MessageType]string{
		SCCRQ: "SCCRQ", SCCRP: "SCCRP", SCCCN: "SCCCN", StopCCN: "StopCCN", Hello: "Hello", OCRQ: "OCRQ", OCRP: "OCRP",
		OCCN: "OCCN", ICRQ: "ICRQ", ICRP: "ICRP", ICCN: "ICCN", CDN: "CDN", WEN: "WEN", SLI: "SLI",
	}
	if s, ok := names[t]; ok {
		return s
	}
	return fmt.Sprintf("message %d", uint16(t))
}

// Message is a control message. It holds AVPs of the standard alone (vendor 0),
// none hidden.
type Message struct {
	Type MessageType
	AVPs []AVP
	// Unknown says that a mandatory AVP is not understood: the message has to
	// end what it is about (section 4.1).
	Unknown bool
	// Optional says that a receiver that does not know the type passes over it.
	Optional bool
}

// New begins a message.
func New(t MessageType) *Message { return &Message{Type: t} }

// errNoType is about the first AVP (section 4.4.1).
var errNoType = errors.New("read control message: it does not begin with its type")

// ParseMessage reads the body of a control message that is no ZLB. secret is
// for hidden AVPs; it may be empty. An AVP that makes no sense, or is hidden and
// cannot be read, is an error if mandatory, else passed over (sections 4.1 and
// 7.1). With an error comes what could be read, unless not even the type could.
func ParseMessage(body, secret []byte) (*Message, error) {
	list, bad := parseAVPs(body)
	if len(list) == 0 || list[0].Attribute != MessageTypeAVP || list[0].Vendor != 0 || list[0].Hidden || len(list[0].Value) != 2 {
		return nil, errNoType
	}
	m := &Message{Type: MessageType(binary.BigEndian.Uint16(list[0].Value)), Optional: !list[0].Mandatory}
	var vector []byte
	for _, a := range list[1:] {
		if a.Vendor == 0 && a.Attribute == RandomVector {
			vector = a.Value
			continue
		}
		least, most, known := lengths(a.Attribute)
		if a.Vendor != 0 || !known || a.reserved {
			m.Unknown = m.Unknown || a.Mandatory
			continue
		}
		if a.Hidden {
			plain, err := a.reveal(secret, vector)
			if err != nil {
				if a.Mandatory && bad == nil {
					bad = err
				}
				continue
			}
			a = plain
		}
		if len(a.Value) < least || len(a.Value) > most {
			if a.Mandatory && bad == nil {
				bad = fmt.Errorf("read control message: attribute %d has %d bytes", a.Attribute, len(a.Value))
			}
			continue
		}
		m.AVPs = append(m.AVPs, a)
	}
	return m, bad
}

// Get returns the value of an attribute.
func (m *Message) Get(a Attribute) ([]byte, bool) {
	for _, v := range m.AVPs {
		if v.Attribute == a {
			return v.Value, true
		}
	}
	return nil, false
}

// Has reports whether the attribute is there.
func (m *Message) Has(a Attribute) bool { _, ok := m.Get(a); return ok }

// Uint16 returns the value of an attribute that has two bytes.
func (m *Message) Uint16(a Attribute) (uint16, bool) {
	b, ok := m.Get(a)
	if !ok || len(b) != 2 {
		return 0, false
	}
	return binary.BigEndian.Uint16(b), true
}

// Uint32 returns the value of an attribute that has four bytes.
func (m *Message) Uint32(a Attribute) (uint32, bool) {
	b, ok := m.Get(a)
	if !ok || len(b) != 4 {
		return 0, false
	}
	return binary.BigEndian.Uint32(b), true
}

// Text returns the value of an attribute as text, without what a terminal
// could take for commands.
func (m *Message) Text(a Attribute) string {
	b, _ := m.Get(a)
	return Printable(b)
}

// Printable replaces what is not printable ASCII.
func Printable(b []byte) string {
	out := make([]byte, 0, len(b))
	for _, c := range b {
		if c < 0x20 || c > 0x7e {
			c = '?'
		}
		out = append(out, c)
	}
	return string(out)
}

// Add adds a mandatory attribute, Option one that peers may pass over.
func (m *Message) Add(a Attribute, value []byte) *Message {
	m.AVPs = append(m.AVPs, AVP{Mandatory: true, Attribute: a, Value: value})
	return m
}

func (m *Message) Option(a Attribute, value []byte) *Message {
	m.AVPs = append(m.AVPs, AVP{Attribute: a, Value: value})
	return m
}

// AddUint16 and AddUint32 are Add for numbers.
func (m *Message) AddUint16(a Attribute, n uint16) *Message {
	return m.Add(a, binary.BigEndian.AppendUint16(nil, n))
}

func (m *Message) AddUint32(a Attribute, n uint32) *Message {
	return m.Add(a, binary.BigEndian.AppendUint32(nil, n))
}

// hideable returns which attributes may be hidden (section 4.4); the others a
// receiver must be able to read without the secret.
func hideable(a Attribute) bool {
	switch a {
	case MessageTypeAVP, ResultCodeAVP, ProtocolVersion, TieBreaker, HostName, RandomVector, CauseCode, ReceiveWindowSize, SequencingRequired:
		return false
	}
	return true
}

// Marshal writes the body.
func (m *Message) Marshal() []byte { return m.marshal(nil, nil) }

// MarshalHidden writes the body with every attribute hidden that may be.
// vector is random; it is sent along.
func (m *Message) MarshalHidden(secret, vector []byte) []byte { return m.marshal(secret, vector) }

func (m *Message) marshal(secret, vector []byte) []byte {
	kind := AVP{Mandatory: !m.Optional, Attribute: MessageTypeAVP, Value: binary.BigEndian.AppendUint16(nil, uint16(m.Type))}
	b := kind.append(nil)
	if len(vector) > 0 {
		b = AVP{Mandatory: true, Attribute: RandomVector, Value: vector}.append(b)
	}
	for _, a := range m.AVPs {
		if len(vector) > 0 && hideable(a.Attribute) {
			a = a.hide(secret, vector, nil)
		}
		b = a.append(b)
	}
	return b
}

// Peek reads what a message shows without the secret: its type, and the host
// name, by which a receiver finds the secret.
func Peek(body []byte) (t MessageType, host []byte, err error) {
	list, err := parseAVPs(body)
	if err != nil {
		return 0, nil, err
	}
	if len(list) == 0 || list[0].Attribute != MessageTypeAVP || list[0].Vendor != 0 || len(list[0].Value) != 2 {
		return 0, nil, errNoType
	}
	for _, a := range list {
		if a.Attribute == HostName && a.Vendor == 0 && !a.Hidden {
			host = a.Value
		}
	}
	return MessageType(binary.BigEndian.Uint16(list[0].Value)), host, nil
}
