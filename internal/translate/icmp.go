package translate

import "weft/wire/checksum"

import "weft/internal/state"

// ICMP types that the translator reads or writes (RFC 792, RFC 4443).
const (
	icmp4EchoReply    = 0
	icmp4Unreachable  = 3
	icmp4FragNeeded   = 4 // code of Unreachable
	icmp4Echo         = 8
	icmp4TimeExceeded = 11
	icmp4Parameter    = 12

	icmp6Unreachable  = 1
	icmp6TooBig       = 2
	icmp6TimeExceeded = 3
	icmp6Parameter    = 4
	icmp6Echo         = 128
	icmp6EchoReply    = 129
)

func echo6to4(kind byte) (byte, bool) {
	switch kind {
	case icmp6Echo:
		return icmp4Echo, true
	case icmp6EchoReply:
		return icmp4EchoReply, true
	}
	return 0, false
}

func echo4to6(kind byte) (byte, bool) {
	switch kind {
	case icmp4Echo:
		return icmp6Echo, true
	case icmp4EchoReply:
		return icmp6EchoReply, true
	}
	return 0, false
}

// echo turns an echo message into that of the other family in place. d is the
// pseudo header, which only ICMPv6 has. A quoted message may be cut off.
func echo(msg []byte, kinds func(byte) (byte, bool), d delta, quoted bool) state.Outcome {
	if len(msg) < icmpLen && !quoted {
		return state.DropTruncated
	}
	if len(msg) == 0 {
		return state.OutcomeNone
	}
	kind, ok := kinds(msg[0])
	if !ok {
		return state.DropIcmpType
	}
	if len(msg) >= 4 {
		adjustAt(msg, 2, fold32(d.from)+uint32(msg[0])<<8, fold32(d.to)+uint32(kind)<<8)
	}
	msg[0] = kind
	if !quoted && get16(msg[2:]) == 0 {
		put16(msg[2:], 0xffff) // the same sum, and the only one that a message of zeros has
	}
	return state.OutcomeNone
}

func fold32(acc uint32) uint32 { return uint32(checksum.Fold(acc)) }

// adjustQuoted adjusts the checksum of a quoted TCP or UDP segment if it has
// come that far.
func adjustQuoted(seg []byte, protocol byte, d delta) {
	switch {
	case protocol == protocolTCP && len(seg) >= 18:
		adjustAt(seg, 16, d.from, d.to)
	case protocol == protocolUDP && len(seg) >= udpLen:
		adjustUDP(seg, d)
	}
}

// minQuote is how much of a packet an error with extensions must quote, zeros
// filling it up (RFC 4884 section 3).
const minQuote = 128

// fit lays out the payload of an ICMP error in room bytes: the quoted packet,
// then the extensions. Those stay whole or go, and matter more than what is
// quoted beyond minQuote. unit is what the length attribute counts in; the
// result's length is zero if there are no extensions.
func fit(quoted, extensions []byte, room, unit int) (quote int, padding int, kept []byte, length byte) {
	if len(extensions) == 0 || minQuote+len(extensions) > room {
		return min(len(quoted), room), 0, nil, 0
	}
	quote = min(len(quoted), room-len(extensions), 255*unit)
	if quote >= minQuote {
		quote -= quote % unit
	} else {
		padding = minQuote - quote
	}
	return quote, padding, extensions, byte((quote + padding) / unit)
}

// extensions splits the payload of an ICMP error by its length attribute,
// given in bytes (RFC 4884 section 4). An attribute that says more than there
// is counts for nothing.
func extensions(payload []byte, length int) (quoted, ext []byte) {
	if length == 0 || length > len(payload) {
		return payload, nil
	}
	return payload[:length], payload[length:]
}

// newError builds an ICMP message after head bytes of room: header word 2 is
// rest, with the length attribute at byte 4+lengthAt.
func newError(head int, kind, code byte, rest uint32, quoted, ext []byte, room, unit, lengthAt int) []byte {
	quote, padding, kept, length := fit(quoted, ext, room, unit)
	out := make([]byte, head+icmpLen+quote+padding+len(kept))
	msg := out[head:]
	msg[0], msg[1] = kind, code
	put32(msg[4:], rest)
	if length != 0 {
		msg[4+lengthAt] = length
	}
	copy(msg[icmpLen:], quoted[:quote])
	copy(msg[icmpLen+quote+padding:], kept)
	return out
}
