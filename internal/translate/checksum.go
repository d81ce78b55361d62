package translate

import "weft/wire/checksum"

// adjustAt adjusts the checksum at b[at:].
func adjustAt(b []byte, at int, from, to uint32) {
	put16(b[at:], checksum.Adjust(get16(b[at:]), from, to))
}

func get16(b []byte) uint16 { return uint16(b[0])<<8 | uint16(b[1]) }

func put16(b []byte, v uint16) { b[0], b[1] = byte(v>>8), byte(v) }

func get32(b []byte) uint32 { return uint32(get16(b))<<16 | uint32(get16(b[2:])) }

func put32(b []byte, v uint32) {
	put16(b, uint16(v>>16))
	put16(b[2:], uint16(v))
}
