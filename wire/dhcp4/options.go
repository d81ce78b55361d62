package dhcp4

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Option is one of a message, as bytes.
type Option struct {
	Code uint8  `json:"code"`
	Data []byte `json:"data"`
}

// Options are those of a message, each code once, the most important first.
type Options []Option

// Bounds of what is read of one option: more than any server sends.
const (
	addressesMost = 32
	routesMost    = 256
	namesMost     = 32
)

// Get returns the bytes of an option; nil: it is not there.
func (l Options) Get(code uint8) []byte {
	for _, o := range l {
		if o.Code == code {
			if o.Data == nil {
				return []byte{}
			}
			return o.Data
		}
	}
	return nil
}

// Has reports whether an option is there.
func (l Options) Has(code uint8) bool { return l.Get(code) != nil }

// Set appends options, or replaces those of the same codes.
func (l *Options) Set(list ...Option) {
	for _, o := range list {
		if i := slices.IndexFunc(*l, func(x Option) bool { return x.Code == o.Code }); i >= 0 {
			(*l)[i] = o
		} else {
			*l = append(*l, o)
		}
	}
}

// Address returns an option of one address; the zero Addr: it is not there, or not one.
func (l Options) Address(code uint8) netip.Addr {
	d := l.Get(code)
	if len(d) != 4 {
		return netip.Addr{}
	}
	return address(d)
}

// Addresses returns an option that lists addresses. Addresses that are none are left out.
func (l Options) Addresses(code uint8) (list []netip.Addr) {
	d := l.Get(code)
	if len(d)%4 != 0 {
		return nil
	}
	for ; len(d) > 0 && len(list) < addressesMost; d = d[4:] {
		if a := address(d); a.IsValid() && !a.IsMulticast() && a != broadcast() {
			list = append(list, a)
		}
	}
	return list
}

func broadcast() netip.Addr { return netip.AddrFrom4([4]byte{255, 255, 255, 255}) }

// Uint16 returns an option of two bytes.
func (l Options) Uint16(code uint8) (n uint16, ok bool) {
	d := l.Get(code)
	if len(d) != 2 {
		return 0, false
	}
	return binary.BigEndian.Uint16(d), true
}

// Uint32 returns an option of four bytes, such as a time in seconds.
func (l Options) Uint32(code uint8) (n uint32, ok bool) {
	d := l.Get(code)
	if len(d) != 4 {
		return 0, false
	}
	return binary.BigEndian.Uint32(d), true
}

// Text returns an option of printable ASCII, without the zeros that some write behind it;
// "": it is not there or has other bytes.
func (l Options) Text(code uint8) string {
	s := strings.TrimRight(string(l.Get(code)), "\x00")
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
		return ""
	}
	return s
}

// Mask returns the length of the prefix that a subnet mask says.
func (l Options) Mask() (bits int, ok bool) {
	n, ok := l.Uint32(OptionMask)
	if !ok {
		return 0, false
	}
	for bits = 0; bits < 32 && n&(1<<(31-bits)) != 0; bits++ {
	}
	return bits, n<<bits == 0 // what is behind the ones; a shift by 32 gives 0
}

// Bytes makes an option of bytes.
func Bytes(code uint8, data []byte) Option { return Option{code, data} }

// Text makes an option of text.
func Text(code uint8, text string) Option { return Option{code, []byte(text)} }

// Addresses makes an option of addresses; those that are not IPv4 are left out.
func Addresses(code uint8, list ...netip.Addr) Option {
	data := make([]byte, 0, 4*len(list))
	for _, a := range list {
		if a.Is4() {
			data = append(data, a.AsSlice()...)
		}
	}
	return Option{code, data}
}

// Uint8 makes an option of one byte.
func Uint8(code, n uint8) Option { return Option{code, []byte{n}} }

// Uint16 makes an option of two bytes.
func Uint16(code uint8, n uint16) Option { return Option{code, binary.BigEndian.AppendUint16(nil, n)} }

// Uint32 makes an option of four bytes.
func Uint32(code uint8, n uint32) Option { return Option{code, binary.BigEndian.AppendUint32(nil, n)} }

// Seconds makes an option of a time; what does not fit has no end.
func Seconds(code uint8, d time.Duration) Option {
	return Uint32(code, uint32(min(max(d/time.Second, 0), Infinite)))
}

// Mask makes the option of a subnet mask.
func Mask(bits int) Option {
	return Uint32(OptionMask, ^uint32(0)<<(32-min(max(bits, 0), 32)))
}

// ClientID makes the client identifier of a DUID and an identity association (RFC 4361).
func ClientID(iaid [4]byte, duid []byte) Option {
	return Option{OptionClientID, append(append([]byte{255}, iaid[:]...), duid...)}
}

// HardwareID makes the client identifier of a hardware address (RFC 2132 section 9.14).
func HardwareID(kind uint8, hardware string) Option {
	return Option{OptionClientID, append([]byte{kind}, hardware...)}
}

// UserClasses makes the option of user classes (RFC 3004). A class of no bytes or of more
// than 255 is left out.
func UserClasses(list ...string) Option {
	o := Option{Code: OptionUserClass, Data: []byte{}}
	for _, c := range list {
		if len(c) > 0 && len(c) <= 255 {
			o.Data = append(append(o.Data, byte(len(c))), c...)
		}
	}
	return o
}

// UserClasses returns the user classes. Clients that write the bare text (iPXE, and others
// that are older than RFC 3004) have one.
func (l Options) UserClasses() (list []string) {
	whole := l.Get(OptionUserClass)
	for d := whole; len(d) > 0; {
		n := int(d[0])
		if n == 0 || n > len(d)-1 || len(list) == namesMost {
			return []string{string(whole[:min(len(whole), 255)])}
		}
		list = append(list, string(d[1:1+n]))
		d = d[1+n:]
	}
	return list
}
