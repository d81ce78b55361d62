// Package checksum is the Internet checksum (RFC 1071) and its change with the
// words that it covers (RFC 1624).
package checksum

// Of returns the checksum of parts that follow one another; all but the last have
// an even length. Over data that holds its own right checksum it gives 0.
func Of(parts ...[]byte) uint16 {
	acc := uint32(0)
	for _, p := range parts {
		acc = Sum(p, acc)
	}
	return ^uint16(acc)
}

// Sum adds the 16-bit words of b, big-endian, the last byte of an odd length
// padded with zero, to acc. The result is not complemented and is folded.
func Sum(b []byte, acc uint32) uint32 {
	wide := uint64(acc)
	for len(b) >= 4 {
		wide += uint64(b[0])<<24 | uint64(b[1])<<16 | uint64(b[2])<<8 | uint64(b[3])
		b = b[4:]
	}
	if len(b) >= 2 {
		wide += uint64(b[0])<<8 | uint64(b[1])
		b = b[2:]
	}
	if len(b) == 1 {
		wide += uint64(b[0]) << 8
	}
	for wide>>16 != 0 {
		wide = wide&0xffff + wide>>16
	}
	return uint32(wide)
}

// Fold brings a sum into 16 bits.
func Fold(acc uint32) uint16 {
	for acc>>16 != 0 {
		acc = acc&0xffff + acc>>16
	}
	return uint16(acc)
}

// Adjust returns the checksum after the words that add up to from have given way
// to words that add up to to (RFC 1624 equation 3). A checksum that was wrong
// stays wrong.
func Adjust(check uint16, from, to uint32) uint16 {
	return ^Fold(uint32(^check) + uint32(^Fold(from)) + uint32(Fold(to)))
}

// Pseudo returns what a pseudo header adds to the addresses (RFC 8200 section
// 8.1): the length of the upper layer and its protocol.
func Pseudo(length int, protocol byte) uint32 {
	return uint32(length>>16) + uint32(length&0xffff) + uint32(protocol)
}
