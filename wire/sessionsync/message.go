// Package failover is the form in which routers tell each other of the sessions
// of stateful translators: messages of a stream that one router writes and the
// others read. Numbers are big-endian.
//
//	0   "wf"        2  what it is
//	2   version     1  1; others are refused
//	3   kind        1
//	4   flags       1  1: the sender does not know all sessions yet
//	5   listing     4  number of the listing that this belongs to, or of the last
//	9   names       1  how many translators are named, each: length (1), name
//	    records     2  how many follow, of 58 bytes each
//
//	0   what        1  1 put, 2 lend, 3 end
//	1   translator  1  place in the names
//	2   protocol    1  of IPv4: 1, 6 or 17
//	3   state       1  RFC 6146 section 3.5.2.1
//	4   left        4  milliseconds until it ends without a packet
//	8   age         4  seconds since it was made
//	12  node       18  IPv6 address, port
//	30  far end    16  IPv6 address
//	46  pool        6  IPv4 address, port
//	52  far end     6  IPv4 address, port
package sessionsync

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"weft/internal/state"
)

// Kind says what a message is about.
type Kind uint8

const (
	Live  Kind = 1 // changes, as they happen
	Begin Kind = 2 // a listing of all sessions begins
	Part  Kind = 3 // sessions of a listing
	End   Kind = 4 // that was all
)

// What is the kind of a session update.
type What uint8

const (
	Put       What = 1 // the sender has it
	Replicate What = 2 // the sender has received the session and has seen no packet of it since
	Ending    What = 3 // it is over
)

// MaxRecords is how many records one message may have.
const MaxRecords = 1024

// Record is one session. Its translator is a name; that in Shared means nothing.
type Record struct {
	What       What
	Translator string
	state.Shared
}

// Message is one message of the stream.
type Message struct {
	Kind    Kind
	Partial bool   // the sender does not know all sessions yet
	Dump    uint32 // number of the listing
	Records []Record
}

const (
	version    = 1
	headSize   = 10
	recordSize = 58
	partial    = 1
)

// Append writes m behind b.
func (m *Message) Append(b []byte) ([]byte, error) {
	if len(m.Records) > MaxRecords {
		return b, fmt.Errorf("%d records in a message, at most %d", len(m.Records), MaxRecords)
	}
	var flags byte
	if m.Partial {
		flags |= partial
	}
	b = append(b, 'w', 'f', version, byte(m.Kind), flags)
	b = binary.BigEndian.AppendUint32(b, m.Dump)
	places := map[string]byte{}
	count := len(b)
	b = append(b, 0)
	for _, r := range m.Records {
		if _, known := places[r.Translator]; known {
			continue
		}
		if len(places) == 255 || len(r.Translator) > 255 {
			return b, errors.New("too many translators, or too long a name")
		}
		places[r.Translator] = byte(len(places))
		b = append(append(b, byte(len(r.Translator))), r.Translator...)
	}
	b[count] = byte(len(places))
	b = binary.BigEndian.AppendUint16(b, uint16(len(m.Records)))
	for _, r := range m.Records {
		if !r.IPv6.Addr().Is6() || !r.Remote6.Is6() || !r.IPv4.Addr().Is4() || !r.Remote4.Addr().Is4() {
			return b, fmt.Errorf("%s at %s is of the wrong family", r.IPv6, r.IPv4)
		}
		b = append(b, byte(r.What), places[r.Translator], r.Protocol, byte(r.State))
		b = binary.BigEndian.AppendUint32(b, clamp(r.Left, time.Millisecond))
		b = binary.BigEndian.AppendUint32(b, clamp(r.Age, time.Second))
		b = appendPort(append(b, r.IPv6.Addr().AsSlice()...), r.IPv6)
		b = append(b, r.Remote6.AsSlice()...)
		b = appendPort(append(b, r.IPv4.Addr().AsSlice()...), r.IPv4)
		b = appendPort(append(b, r.Remote4.Addr().AsSlice()...), r.Remote4)
	}
	return b, nil
}

func appendPort(b []byte, a netip.AddrPort) []byte { return binary.BigEndian.AppendUint16(b, a.Port()) }

// clamp gives d in units that a 32-bit number holds.
func clamp(d, unit time.Duration) uint32 {
	return uint32(min(max(d, 0)/unit, 1<<32-1))
}

// ErrVersion says that a message is of another version of weft.
var ErrVersion = errors.New("it is of another version")

// Parse reads a message. Whatever is wrong refuses it whole.
func Parse(b []byte) (*Message, error) {
	if len(b) < headSize || b[0] != 'w' || b[1] != 'f' {
		return nil, errors.New("it is no message of failover")
	}
	if b[2] != version {
		return nil, fmt.Errorf("version %d: %w", b[2], ErrVersion)
	}
	m := &Message{Kind: Kind(b[3]), Partial: b[4]&partial != 0, Dump: binary.BigEndian.Uint32(b[5:])}
	if m.Kind < Live || m.Kind > End || b[4]&^partial != 0 {
		return nil, fmt.Errorf("kind %d with flags %#x is not known", b[3], b[4])
	}
	names, rest := make([]string, b[9]), b[headSize:]
	for i := range names {
		if len(rest) == 0 || len(rest) < 1+int(rest[0]) {
			return nil, errors.New("it ends within the names")
		}
		end := 1 + int(rest[0]) // 255 of them and one do not fit a byte
		names[i], rest = string(rest[1:end]), rest[end:]
	}
	if len(rest) < 2 {
		return nil, errors.New("it ends before the records")
	}
	count, rest := int(binary.BigEndian.Uint16(rest)), rest[2:]
	if count > MaxRecords || len(rest) != count*recordSize {
		return nil, fmt.Errorf("it has %d bytes for %d records", len(rest), count)
	}
	m.Records = make([]Record, count)
	for i := range m.Records {
		if err := m.Records[i].parse(rest[i*recordSize:][:recordSize], names); err != nil {
			return nil, fmt.Errorf("record %d: %w", i, err)
		}
	}
	return m, nil
}

func (r *Record) parse(b []byte, names []string) error {
	r.What, r.Protocol, r.State = What(b[0]), b[2], state.SessionState(b[3])
	switch {
	case r.What < Put || r.What > Ending:
		return fmt.Errorf("%d is not a kind of session update", b[0])
	case int(b[1]) >= len(names):
		return fmt.Errorf("translator %d of %d", b[1], len(names))
	case r.Protocol != 1 && r.Protocol != 6 && r.Protocol != 17:
		return fmt.Errorf("protocol %d", r.Protocol)
	case r.State > state.SessionTrans, (r.Protocol == 6) == (r.State == state.SessionActive):
		return fmt.Errorf("protocol %d has no state %d", r.Protocol, r.State)
	}
	r.Translator = names[b[1]]
	r.Left = time.Duration(binary.BigEndian.Uint32(b[4:])) * time.Millisecond
	r.Age = time.Duration(binary.BigEndian.Uint32(b[8:])) * time.Second
	r.IPv6 = netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[12:28])), binary.BigEndian.Uint16(b[28:]))
	r.Remote6 = netip.AddrFrom16([16]byte(b[30:46]))
	r.IPv4 = netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[46:50])), binary.BigEndian.Uint16(b[50:]))
	r.Remote4 = netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[52:56])), binary.BigEndian.Uint16(b[56:]))
	return nil
}
