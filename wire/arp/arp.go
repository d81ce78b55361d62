// Package arp is ARP for IPv4 over Ethernet (RFC 826), with the packets of address
// conflict detection (RFC 5227).
package arp

import (
	"encoding/binary"
	"errors"
	"net/netip"
)

// Len is the length of a packet.
const Len = 28

// Kinds of packets.
const (
	Request = 1
	Reply   = 2
)

// Packet is a request or a reply. A sender's address that is none makes it a probe.
type Packet struct {
	Op           uint16
	FromHardware [6]byte
	From         netip.Addr
	ToHardware   [6]byte
	To           netip.Addr
}

// Probe asks whether another host has an address (RFC 5227 section 2.1.1).
func Probe(own [6]byte, a netip.Addr) Packet { return Packet{Op: Request, FromHardware: own, To: a} }

// Announcement says that the sender has an address (RFC 5227 section 2.3).
func Announcement(own [6]byte, a netip.Addr) Packet {
	return Packet{Op: Request, FromHardware: own, From: a, To: a}
}

// Parse reads a packet; padding of Ethernet may stand behind it.
func Parse(b []byte) (p Packet, err error) {
	if len(b) < Len || binary.BigEndian.Uint64(b)>>16 != 0x000108000604 {
		return p, errors.New("read ARP: it is cut short, or not about IPv4 over Ethernet")
	}
	p.Op = binary.BigEndian.Uint16(b[6:])
	if p.Op != Request && p.Op != Reply {
		return p, errors.New("read ARP: neither a request nor a reply")
	}
	p.FromHardware, p.From = [6]byte(b[8:14]), address(b[14:18])
	p.ToHardware, p.To = [6]byte(b[18:24]), address(b[24:28])
	return p, nil
}

func address(b []byte) netip.Addr {
	a := netip.AddrFrom4([4]byte(b))
	if a.IsUnspecified() {
		return netip.Addr{}
	}
	return a
}

// Marshal writes the packet.
func (p Packet) Marshal() []byte {
	b := []byte{0, 1, 8, 0, 6, 4}
	b = append(binary.BigEndian.AppendUint16(b, p.Op), p.FromHardware[:]...)
	b = append(append(b, four(p.From)...), p.ToHardware[:]...)
	return append(b, four(p.To)...)
}

func four(a netip.Addr) []byte {
	if !a.Is4() {
		return make([]byte, 4)
	}
	return a.AsSlice()
}

// Conflicts reports whether a packet shows that a host with another hardware address than
// own has an address, or, while own probes for it, probes for it too (RFC 5227 section
// 2.1.1).
func (p Packet) Conflicts(a netip.Addr, own [6]byte) bool {
	if p.FromHardware == own {
		return false
	}
	return p.From == a || p.Op == Request && !p.From.IsValid() && p.To == a
}
