package nlconn

import (
	"encoding/binary"
	"errors"
	"iter"
	"net/netip"

	"golang.org/x/sys/unix"
)

// ErrShort is returned for a netlink message that is shorter than its headers say.
var ErrShort = errors.New("netlink message cut short")

// nlaTypeMask takes NLA_F_NESTED and NLA_F_NET_BYTEORDER off an attribute's
// type (linux/netlink.h).
const nlaTypeMask = 1<<14 - 1

// Attributes returns type and value of each attribute in b, which may be padded
// to four bytes (linux/netlink.h, struct nlattr). It ends at the first one
// that does not fit, as the kernel's own parser does.
func Attributes(b []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(uint16, []byte) bool) {
		for len(b) >= unix.SizeofNlAttr {
			n := int(binary.NativeEndian.Uint16(b))
			if n < unix.SizeofNlAttr || n > len(b) {
				return
			}
			if !yield(binary.NativeEndian.Uint16(b[2:])&nlaTypeMask, b[unix.SizeofNlAttr:n]) {
				return
			}
			b = b[min(len(b), (n+3)&^3):]
		}
	}
}

// U32 reads a number of four bytes; 0 if there are fewer.
func U32(b []byte) uint32 {
	if len(b) < 4 {
		return 0
	}
	return binary.NativeEndian.Uint32(b)
}

func U16(b []byte) uint16 {
	if len(b) < 2 {
		return 0
	}
	return binary.NativeEndian.Uint16(b)
}

// Text reads a string that ends with a zero byte.
func Text(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}

// Address reads an IP address of either family.
func Address(b []byte) netip.Addr {
	switch len(b) {
	case 4:
		return netip.AddrFrom4([4]byte(b))
	case 16:
		return netip.AddrFrom16([16]byte(b))
	}
	return netip.Addr{}
}

// Messages returns type, flags and body of each message in b (struct nlmsghdr).
func Messages(b []byte) iter.Seq2[unix.NlMsghdr, []byte] {
	return func(yield func(unix.NlMsghdr, []byte) bool) {
		for len(b) >= unix.SizeofNlMsghdr {
			h := unix.NlMsghdr{
				Len: binary.NativeEndian.Uint32(b), Type: binary.NativeEndian.Uint16(b[4:]), Flags: binary.NativeEndian.Uint16(b[6:]),
				Seq: binary.NativeEndian.Uint32(b[8:]), Pid: binary.NativeEndian.Uint32(b[12:]),
			}
			n := int(h.Len)
			if n < unix.SizeofNlMsghdr || n > len(b) {
				return
			}
			if !yield(h, b[unix.SizeofNlMsghdr:n]) {
				return
			}
			b = b[min(len(b), (n+3)&^3):]
		}
	}
}

const NestedFlag = 0x8000 // NLA_F_NESTED

func Nested(kind uint16, parts ...[]byte) []byte {
	var all []byte
	for _, p := range parts {
		all = append(all, p...)
	}
	return Attribute(kind|NestedFlag, all)
}

func Put16(v uint16) []byte { return binary.BigEndian.AppendUint16(nil, v) }

func Put32(v uint32) []byte { return binary.BigEndian.AppendUint32(nil, v) }
