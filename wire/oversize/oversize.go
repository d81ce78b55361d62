// Package oversize is what a router does with an IP packet that is larger than the MTU of
// the next link: it answers with an ICMP error, or cuts the packet into fragments.
package oversize

import (
	"encoding/binary"
	"net/netip"

	"weft/wire/checksum"
	"weft/wire/ipv6"
)

// quoted is how much of a packet an error carries (RFC 1812 section 4.3.2.3,
// RFC 4443 section 3.2).
const (
	quoted4 = 548
	quoted6 = 1232
)

// Answer is the ICMP error about a packet that must not be fragmented, from an address of
// the router's. nil: the packet may be fragmented; empty: it is dropped without an answer.
func Answer(ip []byte, mtu int, from netip.Addr) []byte {
	to, _, _ := Addresses(ip)
	if ip[0]>>4 == 6 {
		if !from.IsValid() {
			return []byte{} // there is no address to send it from; the packet is lost
		}
		if ip[6] == ipv6.ICMPv6 && len(ip) > ipv6.HeaderLen && ip[ipv6.HeaderLen] < 128 {
			return []byte{} // no errors about errors (RFC 4443 section 2.4)
		}
		b := binary.BigEndian.AppendUint32([]byte{2, 0, 0, 0}, uint32(mtu))
		return ipv6.Packet{From: from, To: to, NextHeader: ipv6.ICMPv6, HopLimit: 64, Payload: append(b, ip[:min(len(ip), quoted6)]...)}.Marshal(2)
	}
	if ip[6]&0x40 == 0 {
		return nil
	}
	if !from.IsValid() || ip[9] == 1 && len(ip) > 20 && (ip[20] == 3 || ip[20] == 11 || ip[20] == 12) {
		return []byte{}
	}
	body := append([]byte{3, 4, 0, 0, 0, 0, byte(mtu >> 8), byte(mtu)}, ip[:min(len(ip), quoted4)]...)
	binary.BigEndian.PutUint16(body[2:], checksum.Of(body))
	b := make([]byte, 20, 20+len(body))
	b[0], b[8], b[9] = 0x45, 64, 1
	binary.BigEndian.PutUint16(b[2:], uint16(20+len(body)))
	src, dst := from.As4(), to.As4()
	copy(b[12:], src[:])
	copy(b[16:], dst[:])
	binary.BigEndian.PutUint16(b[10:], checksum.Of(b))
	return append(b, body...)
}

// Fragments cuts an IPv4 packet that may be (RFC 791 section 3.2). What has
// options is not cut: it is dropped.
func Fragments(ip []byte, mtu int) [][]byte {
	if ip[0] != 0x45 || int(binary.BigEndian.Uint16(ip[2:])) > len(ip) {
		return nil
	}
	ip = ip[:binary.BigEndian.Uint16(ip[2:])]
	if len(ip) < 20 || mtu < 28 {
		return nil
	}
	word := binary.BigEndian.Uint16(ip[6:])
	start, more := int(word&0x1fff)*8, word&0x2000
	payload, room := ip[20:], (mtu-20)&^7
	var list [][]byte
	for at := 0; at < len(payload); at += room {
		end := min(at+room, len(payload))
		b := append(append(make([]byte, 0, 20+end-at), ip[:20]...), payload[at:end]...)
		flags := more
		if end < len(payload) {
			flags = 0x2000
		}
		binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
		binary.BigEndian.PutUint16(b[6:], flags|uint16((start+at)/8))
		b[10], b[11] = 0, 0
		binary.BigEndian.PutUint16(b[10:], checksum.Of(b[:20]))
		list = append(list, b)
	}
	return list
}

// Addresses reads the addresses of an IP packet.
func Addresses(ip []byte) (from, to netip.Addr, ok bool) {
	switch {
	case len(ip) >= 20 && ip[0]>>4 == 4:
		return netip.AddrFrom4([4]byte(ip[12:16])), netip.AddrFrom4([4]byte(ip[16:20])), true
	case len(ip) >= ipv6.HeaderLen && ip[0]>>4 == 6:
		return netip.AddrFrom16([16]byte(ip[8:24])), netip.AddrFrom16([16]byte(ip[24:40])), true
	}
	return from, to, false
}
