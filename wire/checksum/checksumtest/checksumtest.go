// Package checksumtest is a second Internet checksum (RFC 1071), written byte by
// byte, for tests: what package checksum and the programs in the kernel compute
// is compared with it.
package checksumtest

// Of returns the checksum of parts that follow one another; all but the last have
// an even length.
func Of(parts ...[]byte) uint16 {
	acc := 0
	for _, p := range parts {
		for i, b := range p {
			if i%2 == 0 {
				acc += int(b) << 8
			} else {
				acc += int(b)
			}
		}
	}
	for acc > 0xffff {
		acc = acc>>16 + acc&0xffff
	}
	return ^uint16(acc)
}
