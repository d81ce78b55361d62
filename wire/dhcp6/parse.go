package dhcp6

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"strings"
	"time"
)

// Bounds of one message: more than any client or server sends.
const (
	optionsMost   = 256 // in the message, and in an identity association
	iasMost       = 32  // identity associations of a kind
	leasesMost    = 32  // in an identity association
	requestedMost = 256 // options asked for
	serversMost   = 32  // DNS servers
	namesMost     = 32  // names of a search list
	duidMost      = 130 // bytes (section 11.1)
)

var errTruncated = errors.New("an option is cut off")

// Parse reads a message of a client or a server. Options that Message does not
// have are passed over unread; of an option that may be there once the first counts.
func Parse(b []byte) (*Message, error) {
	if len(b) < 4 {
		return nil, errors.New("read DHCPv6 message: shorter than its header")
	}
	m := &Message{Type: Type(b[0]), Transaction: [3]byte(b[1:4])}
	seen := map[uint16]bool{}
	for o, err := range options(b[4:]) {
		if err == nil && (!seen[o.code] || o.repeats()) {
			seen[o.code] = true
			err = m.read(o)
		}
		if err != nil {
			return nil, fmt.Errorf("read DHCPv6 message: %w", err)
		}
	}
	return m, nil
}

// ClientID returns the client's DUID in a message, nil if there is none. It reads nothing
// else.
func ClientID(b []byte) []byte {
	if len(b) < 4 {
		return nil
	}
	for o, err := range options(b[4:]) {
		if err == nil && o.code == optionClientID {
			return o.data
		}
	}
	return nil
}

// option is one of a message or of an identity association.
type option struct {
	code uint16
	data []byte
}

// repeats reports whether several of a kind count. Some clients send more than
// one Option Request.
func (o option) repeats() bool {
	return o.code == optionIANA || o.code == optionIAPD || o.code == optionORO
}

// options returns the options in b, or an error and nothing after it.
func options(b []byte) iter.Seq2[option, error] {
	return func(yield func(option, error) bool) {
		for n := 0; len(b) > 0; n++ {
			if len(b) < 4 {
				yield(option{}, errTruncated)
				return
			}
			if n == optionsMost {
				yield(option{}, fmt.Errorf("more than %d options", optionsMost))
				return
			}
			code, length := binary.BigEndian.Uint16(b), int(binary.BigEndian.Uint16(b[2:]))
			if b = b[4:]; len(b) < length {
				yield(option{}, errTruncated)
				return
			}
			if !yield(option{code, b[:length]}, nil) {
				return
			}
			b = b[length:]
		}
	}
}

// read takes over what an option says.
func (m *Message) read(o option) (err error) {
	switch o.code {
	case optionClientID:
		m.ClientID, err = duid(o.data)
	case optionServerID:
		m.ServerID, err = duid(o.data)
	case optionIANA:
		m.Addresses, err = appendIA(m.Addresses, o.data, optionIAAddr)
	case optionIAPD:
		m.Prefixes, err = appendIA(m.Prefixes, o.data, optionIAPrefix)
	case optionORO:
		if len(o.data)%2 != 0 {
			return errTruncated
		}
		for d := o.data; len(d) > 0 && len(m.Requested) < requestedMost; d = d[2:] {
			m.Requested = append(m.Requested, binary.BigEndian.Uint16(d))
		}
	case optionRapidCommit:
		m.RapidCommit = true
	case optionElapsed:
		if len(o.data) != 2 {
			return errTruncated
		}
		m.Elapsed = time.Duration(binary.BigEndian.Uint16(o.data)) * 10 * time.Millisecond
	case optionStatus:
		m.Status, err = readStatus(o.data)
	case OptionDNS:
		if len(o.data)%16 != 0 {
			return errTruncated
		}
		for d := o.data; len(d) > 0 && len(m.DNS) < serversMost; d = d[16:] {
			m.DNS = append(m.DNS, netip.AddrFrom16([16]byte(d)))
		}
	case OptionSearch:
		m.Search = names(o.data)
	case OptionRefresh:
		m.Refresh, err = seconds(o.data)
	case OptionPortal:
		m.Portal = string(o.data)
	}
	return err
}

func duid(b []byte) ([]byte, error) {
	if len(b) < 3 || len(b) > duidMost {
		return nil, fmt.Errorf("an identifier has %d bytes, not 3 to %d", len(b), duidMost)
	}
	return append([]byte(nil), b...), nil
}

func seconds(b []byte) (time.Duration, error) {
	if len(b) != 4 {
		return 0, errTruncated
	}
	return time.Duration(binary.BigEndian.Uint32(b)) * time.Second, nil
}

func readStatus(b []byte) (*Status, error) {
	if len(b) < 2 {
		return nil, errTruncated
	}
	s := Status(binary.BigEndian.Uint16(b))
	return &s, nil
}

// appendIA reads an identity association (sections 21.4 and 21.21) whose leases
// are options of the kind lease.
func appendIA(list []IA, b []byte, lease uint16) ([]IA, error) {
	if len(list) == iasMost {
		return nil, fmt.Errorf("more than %d identity associations", iasMost)
	}
	if len(b) < 12 {
		return nil, errTruncated
	}
	ia := IA{ID: [4]byte(b)}
	ia.T1, _ = seconds(b[4:8])
	ia.T2, _ = seconds(b[8:12])
	for o, err := range options(b[12:]) {
		switch {
		case err != nil:
		case o.code == optionStatus && ia.Status == nil:
			ia.Status, err = readStatus(o.data)
		case o.code == lease && len(ia.Leases) == leasesMost:
			err = fmt.Errorf("more than %d leases in an identity association", leasesMost)
		case o.code == lease:
			var l Lease
			l, err = readLease(o.data, lease)
			ia.Leases = append(ia.Leases, l)
		}
		if err != nil {
			return nil, err
		}
	}
	return append(list, ia), nil
}

// readLease reads an address (section 21.6) or a prefix (section 21.22). Options in
// it say nothing that is needed here. A prefix of length 0 is the zero Prefix.
func readLease(b []byte, kind uint16) (l Lease, err error) {
	if kind == optionIAAddr {
		if len(b) < 24 {
			return l, errTruncated
		}
		l.Prefix = netip.PrefixFrom(netip.AddrFrom16([16]byte(b)), 128)
		b = b[16:]
	} else {
		if len(b) < 25 {
			return l, errTruncated
		}
		bits := int(b[8])
		if bits > 128 {
			return l, fmt.Errorf("a prefix of length %d", bits)
		}
		if bits > 0 {
			l.Prefix = netip.PrefixFrom(netip.AddrFrom16([16]byte(b[9:25])), bits)
		}
	}
	l.Preferred, _ = seconds(b[:4])
	l.Valid, _ = seconds(b[4:8])
	return l, nil
}

// names reads a list of domain names, which are never compressed (section 10). A
// list that breaks a rule is none: the rest of the message is worth more.
func names(b []byte) (list []string) {
	for len(b) > 0 && len(list) < namesMost {
		var labels []string
		for length := 0; ; {
			n := int(b[0])
			if n > 63 || len(b) <= n+1 && n > 0 { // a pointer, or no end
				return nil
			}
			if length += n + 1; length > 255 {
				return nil
			}
			label := string(b[1 : 1+n])
			b = b[1+n:]
			if n == 0 {
				break
			}
			if strings.ContainsFunc(label, func(r rune) bool { return r <= ' ' || r == '.' || r > '~' }) {
				return nil
			}
			labels = append(labels, label)
		}
		if len(labels) > 0 {
			list = append(list, strings.Join(labels, "."))
		}
	}
	return list
}
