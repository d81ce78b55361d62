package datapathtest

import (
	"encoding/binary"
	"net/netip"
)

// Refused reports that the kernel's test run does not accept the frame: it wants 20
// bytes behind a header that says IPv4, 40 behind one that says IPv6.
func Refused(res Result, frame []byte) bool {
	least := 14 + 20
	if frame[12] == 0x86 {
		least = 14 + 40
	}
	return res.Err != nil && len(frame) < least && len(res.Counted) == 0
}

// ends returns the addresses and ports of an IP packet; of an echo both are the
// identifier.
func Ends(ip []byte) (from, to netip.AddrPort) {
	head, protocol := 20, byte(0)
	var src, dst netip.Addr
	if IsIPv4(ip) {
		src, _ = netip.AddrFromSlice(ip[12:16])
		dst, _ = netip.AddrFromSlice(ip[16:20])
		protocol = ip[9]
	} else {
		head = 40
		src, _ = netip.AddrFromSlice(ip[8:24])
		dst, _ = netip.AddrFromSlice(ip[24:40])
		protocol = ip[6]
	}
	a, z := binary.BigEndian.Uint16(ip[head:]), binary.BigEndian.Uint16(ip[head+2:])
	if protocol == 1 || protocol == 58 {
		a = binary.BigEndian.Uint16(ip[head+4:])
		z = a
	}
	return netip.AddrPortFrom(src, a), netip.AddrPortFrom(dst, z)
}
