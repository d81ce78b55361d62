package dhcp4

import (
	"encoding/binary"
	"errors"
	"net/netip"
)

// Sizes of messages.
const (
	// MinSize is the least that some BOOTP relay agents forward.
	MinSize = 300
	// DefaultSize is what every client can receive: 576 bytes with the headers of IP
	// and UDP (RFC 2131 section 2).
	DefaultSize = 576 - headers
	headers     = 28
)

// SizeFor returns how large a message may be for who says that it can receive IP datagrams
// of so many bytes (option 57); 0: it says nothing.
func SizeFor(datagram uint16) int {
	return max(int(datagram), DefaultSize+headers) - headers
}

// Marshal writes the message in at most so many bytes. What does not fit among the options
// goes into the fields of boot file and server name if they are free; what does not fit
// there is left out, and left says how many options that are. Options are written in their
// order, so the most important come first; that of the relay agent always comes last
// (RFC 3046 section 2.1).
func (m *Message) Marshal(most int) (b []byte, left int, err error) {
	if len(m.Hardware) > hardwareMost || len(m.ServerName) >= snameLen || len(m.File) >= fileLen {
		return nil, 0, errors.New("write DHCPv4 message: a hardware address, server name or boot file is too long")
	}
	b = make([]byte, optionsAt, max(MinSize, min(most, 1500)))
	b[0], b[1], b[2], b[3] = byte(m.Op), m.HardwareType, byte(len(m.Hardware)), m.Hops
	binary.BigEndian.PutUint32(b[4:], m.Transaction)
	binary.BigEndian.PutUint16(b[8:], m.Seconds)
	if m.Broadcast {
		b[10] = 0x80
	}
	for at, a := range map[int]netip.Addr{12: m.Client, 16: m.Your, 20: m.NextServer, 24: m.Relay} {
		if a.Is4() {
			four := a.As4()
			copy(b[at:], four[:])
		}
	}
	copy(b[28:], m.Hardware)
	copy(b[snameAt:], m.ServerName)
	copy(b[fileAt:], m.File)
	binary.BigEndian.PutUint32(b[cookieAt:], cookie)

	w := writer{most: max(most, MinSize) - 1} // the end
	w.b = b
	var agent []byte
	var later Options
	for _, o := range m.Options {
		if o.Code == OptionRelayAgent {
			agent = o.Data
			w.most -= size(len(agent))
		}
	}
	overload := 3 // what option 52 itself takes
	for _, o := range m.Options {
		switch {
		case o.Code == OptionRelayAgent || o.Code == OptionOverload || o.Code == OptionPad || o.Code == OptionEnd:
		case len(w.b)+size(len(o.Data))+overload > w.most:
			later = append(later, o)
		default:
			w.option(o)
		}
	}
	left = m.overload(&w, later)
	if agent != nil {
		w.option(Option{OptionRelayAgent, agent})
	}
	b = append(w.b, OptionEnd)
	for len(b) < MinSize {
		b = append(b, OptionPad)
	}
	return b, left, nil
}

// overload writes options into free fields, and returns how many are left out.
func (m *Message) overload(w *writer, later Options) (left int) {
	var used byte
	var fields []writer
	if m.File == "" {
		fields = append(fields, writer{b: w.b[fileAt:fileAt], most: fileLen - 1})
	}
	if m.ServerName == "" {
		fields = append(fields, writer{b: w.b[snameAt:snameAt], most: snameLen - 1})
	}
	for _, o := range later {
		fits := false
		for i := range fields {
			f := &fields[i]
			if fits = len(f.b)+size(len(o.Data)) <= f.most; fits {
				f.option(o)
				break
			}
		}
		if !fits {
			left++
		}
	}
	for _, f := range fields {
		if len(f.b) == 0 {
			continue
		}
		bit := byte(1)
		if f.most == snameLen-1 {
			bit = 2
		}
		used |= bit
		_ = append(f.b, OptionEnd) // in the field
	}
	if used != 0 {
		w.option(Option{OptionOverload, []byte{used}})
	}
	return left
}

// size is what an option of so many bytes takes, which may be in parts.
func size(n int) int { return n + 2*max(1, (n+254)/255) }

// writer appends options. Its bytes have room for most of them.
type writer struct {
	b    []byte
	most int
}

// option writes an option, in parts if it is long (RFC 3396).
func (w *writer) option(o Option) {
	for data := o.Data; ; {
		n := min(len(data), 255)
		w.b = append(append(w.b, o.Code, byte(n)), data[:n]...)
		if data = data[n:]; len(data) == 0 {
			return
		}
	}
}
