package translate

import (
	"net/netip"

	"weft/internal/state"
	"weft/wire/checksum"
)

const (
	header4Len  = 20 // bytes, without options
	header6Len  = 40
	fragmentLen = 8 // IPv6 fragment header
	icmpLen     = 8
	udpLen      = 8
	tcpLen      = 20

	protocolICMP4       = 1
	protocolIGMP        = 2
	protocolTCP         = 6
	protocolUDP         = 17
	headerRouting       = 43
	headerFragment      = 44
	headerAuth          = 51
	protocolICMP6       = 58
	headerDestOptions   = 60
	headerHopByHop      = 0
	maxExtensionHeaders = 8 // that are followed in one packet
)

// fragment says which part of a datagram a packet carries.
type fragment struct {
	present bool   // there is a fragment header, or the IPv4 fields are not zero
	id      uint32 // 16 bits in IPv4
	offset  int    // bytes
	more    bool
}

// whole reports that the packet carries all of the datagram, as atomic
// fragments do too (RFC 6946).
func (f fragment) whole() bool { return f.offset == 0 && !f.more }

func (f fragment) first() bool { return f.offset == 0 }

// overflows reports whether the datagram would outgrow the largest packet with
// n bytes at this offset (RFC 8200 section 4.5, RFC 791 section 3.2).
func (f fragment) overflows(n int) bool { return f.present && f.offset+n > maxPacket4 }

// cut6 checks the fixed header and takes off link padding.
func cut6(pkt []byte) ([]byte, state.Outcome) {
	if len(pkt) < header6Len {
		return nil, state.DropTruncated
	}
	if pkt[0]>>4 != 6 {
		return nil, state.DropBadHeader
	}
	end := header6Len + int(get16(pkt[4:]))
	if end > len(pkt) {
		return nil, state.DropTruncated
	}
	return pkt[:end], state.OutcomeNone
}

// cut4 checks the lengths of the header and takes off link padding.
func cut4(pkt []byte) ([]byte, state.Outcome) {
	if len(pkt) < header4Len {
		return nil, state.DropTruncated
	}
	ihl, total := ihl4(pkt), int(get16(pkt[2:]))
	switch {
	case pkt[0]>>4 != 4 || ihl < header4Len || total < ihl:
		return nil, state.DropBadHeader
	case total > len(pkt):
		return nil, state.DropTruncated
	}
	return pkt[:total], state.OutcomeNone
}

// ihl4 returns the header length in bytes that the first byte claims.
func ihl4(pkt []byte) int { return int(pkt[0]&0xf) * 4 }

func src6(pkt []byte) netip.Addr { return netip.AddrFrom16([16]byte(pkt[8:24])) }
func dst6(pkt []byte) netip.Addr { return netip.AddrFrom16([16]byte(pkt[24:40])) }
func src4(pkt []byte) netip.Addr { return netip.AddrFrom4([4]byte(pkt[12:16])) }
func dst4(pkt []byte) netip.Addr { return netip.AddrFrom4([4]byte(pkt[16:20])) }

func trafficClass(pkt []byte) byte { return pkt[0]<<4 | pkt[1]>>4 }

// fragment4 reads the fragmentation fields. The reserved flag is ignored.
func fragment4(pkt []byte) (f fragment, dontFragment bool) {
	word := get16(pkt[6:])
	f = fragment{id: uint32(get16(pkt[4:])), offset: int(word&0x1fff) * 8, more: word&0x2000 != 0}
	f.present = f.offset != 0 || f.more
	return f, word&0x4000 != 0
}

// ipv4 is an IPv4 header without options.
type ipv4 struct {
	tos      byte
	total    int // bytes, header and payload
	id       uint16
	dont     bool // DF
	frag     fragment
	ttl      byte
	protocol byte
	src, dst netip.Addr
}

// put writes the header to b[:20], checksum and all.
func (h ipv4) put(b []byte) {
	flags := uint16(h.frag.offset / 8)
	if h.dont {
		flags |= 0x4000
	}
	if h.frag.more {
		flags |= 0x2000
	}
	src, dst := h.src.As4(), h.dst.As4()
	b[0], b[1] = 0x45, h.tos
	put16(b[2:], uint16(h.total))
	put16(b[4:], h.id)
	put16(b[6:], flags)
	b[8], b[9] = h.ttl, h.protocol
	put16(b[10:], 0)
	copy(b[12:], src[:])
	copy(b[16:], dst[:])
	put16(b[10:], ^checksum.Fold(checksum.Sum(b[:header4Len], 0)))
}

// ipv6 is an IPv6 header, with a fragment header if frag.present.
type ipv6 struct {
	class    byte
	payload  int // bytes after the fixed header, a fragment header included
	protocol byte
	hop      byte
	src, dst netip.Addr
	frag     fragment
}

// size returns the length of the headers in bytes.
func (h ipv6) size() int {
	if h.frag.present {
		return header6Len + fragmentLen
	}
	return header6Len
}

// put writes the headers to the first size bytes of b; the flow label is zero.
func (h ipv6) put(b []byte) {
	src, dst := h.src.As16(), h.dst.As16()
	b[0], b[1], b[2], b[3] = 0x60|h.class>>4, h.class<<4, 0, 0
	put16(b[4:], uint16(h.payload))
	b[6], b[7] = h.protocol, h.hop
	copy(b[8:], src[:])
	copy(b[24:], dst[:])
	if !h.frag.present {
		return
	}
	b[6] = headerFragment
	b[40], b[41] = h.protocol, 0
	word := uint16(h.frag.offset)
	if h.frag.more {
		word |= 1
	}
	put16(b[42:], word)
	put32(b[44:], h.frag.id)
}
