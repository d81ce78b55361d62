package datapath

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
)

// Wire32 encodes an IPv4 address as the programs hold it: in network byte order.
func Wire32(a netip.Addr) uint32 {
	b := a.As4()
	return binary.NativeEndian.Uint32(b[:])
}

func Addr4(wire uint32) netip.Addr {
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], wire)
	return netip.AddrFrom4(b)
}

func Host32(a netip.Addr) uint32 {
	b := a.As4()
	return binary.BigEndian.Uint32(b[:])
}

func AddrOfHost32(v uint32) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], v)
	return netip.AddrFrom4(b)
}

func Bit(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// Wire16 encodes a port as the programs hold it: in network byte order.
func Wire16(p uint16) uint16 { return bits.ReverseBytes16(p) }

func Htons(v uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], v)
	return binary.NativeEndian.Uint16(b[:])
}

func Htonl(v uint32) uint32 {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], v)
	return binary.NativeEndian.Uint32(b[:])
}
