package translate

// sum adds the 16-bit words of b, big-endian, the last byte of an odd length
// padded with zero, to acc. The result is not complemented and is folded.
func sum(b []byte, acc uint32) uint32 {
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

// fold brings a sum into 16 bits.
func fold(acc uint32) uint16 {
	for acc>>16 != 0 {
		acc = acc&0xffff + acc>>16
	}
	return uint16(acc)
}

// adjust gives the checksum after the words that add up to from have given way
// to words that add up to to (RFC 1624 equation 3). A checksum that was wrong
// stays wrong.
func adjust(check uint16, from, to uint32) uint16 {
	return ^fold(uint32(^check) + uint32(^fold(from)) + uint32(fold(to)))
}

// adjustAt applies adjust to the two bytes at b[at:].
func adjustAt(b []byte, at int, from, to uint32) {
	put16(b[at:], adjust(get16(b[at:]), from, to))
}

// pseudo gives what a pseudo header adds to the addresses (RFC 8200 section
// 8.1): the length of the upper layer and its protocol.
func pseudo(length int, protocol byte) uint32 {
	return uint32(length>>16) + uint32(length&0xffff) + uint32(protocol)
}

func get16(b []byte) uint16 { return uint16(b[0])<<8 | uint16(b[1]) }

func put16(b []byte, v uint16) { b[0], b[1] = byte(v>>8), byte(v) }

func get32(b []byte) uint32 { return uint32(get16(b))<<16 | uint32(get16(b[2:])) }

func put32(b []byte, v uint32) {
	put16(b, uint16(v>>16))
	put16(b[2:], uint16(v))
}
