package dhcp4

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
)

// Layout of a message (RFC 2131 section 2).
const (
	snameAt, snameLen = 44, 64
	fileAt, fileLen   = 108, 128
	cookieAt          = 236
	optionsAt         = 240
	cookie            = 0x63825363
)

// mostLen is the longest message that is read: what a UDP datagram can hold.
const mostLen = 65507

var errTruncated = errors.New("an option is cut off")

// Parse reads a message. Options that occur more than once are joined (RFC 3396), also
// where they continue in the fields of the boot file and the server name (option 52).
func Parse(b []byte) (*Message, error) {
	switch {
	case len(b) < optionsAt:
		return nil, errors.New("read DHCPv4 message: shorter than its header")
	case len(b) > mostLen:
		return nil, errors.New("read DHCPv4 message: longer than a datagram")
	case binary.BigEndian.Uint32(b[cookieAt:]) != cookie:
		return nil, errors.New("read DHCPv4 message: no magic cookie")
	case b[0] != byte(BootRequest) && b[0] != byte(BootReply):
		return nil, fmt.Errorf("read DHCPv4 message: operation %d", b[0])
	case b[2] > hardwareMost:
		return nil, fmt.Errorf("read DHCPv4 message: a hardware address of %d bytes", b[2])
	}
	b = bytes.Clone(b) // options are parts of it
	m := &Message{
		Op: Op(b[0]), HardwareType: b[1], Hardware: string(b[28 : 28+b[2]]), Hops: b[3], Transaction: binary.BigEndian.Uint32(b[4:]),
		Seconds: binary.BigEndian.Uint16(b[8:]), Broadcast: b[10]&0x80 != 0,
		Client: address(b[12:]), Your: address(b[16:]), NextServer: address(b[20:]), Relay: address(b[24:]),
	}
	r := reader{at: [256]int16{}}
	overload, err := r.read(b[optionsAt:])
	file, sname := b[fileAt:fileAt+fileLen], b[snameAt:snameAt+snameLen]
	// the file field comes first (RFC 3396 section 5)
	if err == nil && overload&1 != 0 {
		_, err = r.read(file)
	} else {
		m.File = text(file)
	}
	if err == nil && overload&2 != 0 {
		_, err = r.read(sname)
	} else {
		m.ServerName = text(sname)
	}
	if err != nil {
		return nil, fmt.Errorf("read DHCPv4 message: %w", err)
	}
	m.Options = r.options
	return m, nil
}

// reader collects options in the order in which they first occur.
type reader struct {
	options Options
	at      [256]int16 // where an option is, from 1
}

// read reads the options of one field, and returns what option 52 says in it.
func (r *reader) read(b []byte) (overload byte, err error) {
	for len(b) > 0 {
		code := b[0]
		if code == OptionEnd {
			return overload, nil
		}
		if b = b[1:]; code == OptionPad {
			continue
		}
		if len(b) == 0 || len(b)-1 < int(b[0]) {
			return 0, errTruncated
		}
		n := int(b[0])
		data := b[1 : 1+n : 1+n]
		b = b[1+n:]
		if code == OptionOverload {
			if n == 1 {
				overload = data[0]
			}
			continue
		}
		if i := r.at[code]; i > 0 {
			o := &r.options[i-1]
			o.Data = append(o.Data, data...)
			continue
		}
		r.options = append(r.options, Option{code, data})
		r.at[code] = int16(len(r.options))
	}
	return overload, nil // some leave out the end
}

func address(b []byte) netip.Addr {
	a := netip.AddrFrom4([4]byte(b))
	if a.IsUnspecified() {
		return netip.Addr{}
	}
	return a
}

// text reads a field that ends with its first zero.
func text(b []byte) string {
	b, _, _ = bytes.Cut(b, []byte{0})
	return string(b)
}
