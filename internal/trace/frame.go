package trace

import (
	"bytes"
	"encoding/binary"
	"net/netip"
)

const (
	etherLen  = 14
	etherIPv4 = 0x0800
	etherARP  = 0x0806
	etherIPv6 = 0x86dd
	// etherBarrier is for experiments on one's own network (IEEE 802, local
	// experimental EtherType 1): see world.barrier.
	etherBarrier = 0x88b5
)

type mac [6]byte

// frame puts an Ethernet header before a payload.
func frame(to, from mac, etherType uint16, payload []byte) []byte {
	b := make([]byte, 0, etherLen+len(payload))
	b = append(append(b, to[:]...), from[:]...)
	b = binary.BigEndian.AppendUint16(b, etherType)
	return append(b, payload...)
}

func etherTypeOf(frame []byte) uint16 {
	if len(frame) < etherLen {
		return 0
	}
	return binary.BigEndian.Uint16(frame[12:])
}

// multicast reports whether a frame's destination is a group.
func multicast(frame []byte) bool { return len(frame) > 0 && frame[0]&1 == 1 }

// asked returns the address whose link address an ARP request (RFC 826) or a
// neighbour solicitation (RFC 4861 section 4.3) asks for.
func asked(frame []byte) (netip.Addr, bool) {
	if len(frame) < etherLen {
		return netip.Addr{}, false
	}
	b := frame[etherLen:]
	switch etherTypeOf(frame) {
	case etherARP:
		if len(b) >= 28 && binary.BigEndian.Uint16(b[6:]) == 1 {
			return netip.AddrFrom4([4]byte(b[24:28])), true
		}
	case etherIPv6:
		if len(b) >= 64 && b[6] == protocolICMPv6 && b[7] == 255 && b[40] == 135 {
			return netip.AddrFrom16([16]byte(b[48:64])), true
		}
	}
	return netip.Addr{}, false
}

const (
	protocolIGMP   = 2
	protocolICMPv6 = 58
)

// chatter reports whether a frame is what the kernel says of its own accord
// about its own membership in groups (MLD, RFC 3810; IGMP, RFC 3376) and about
// its search for routers (RFC 4861 section 4.1).
func chatter(frame []byte) bool {
	if len(frame) < etherLen+20 {
		return false
	}
	b := frame[etherLen:]
	switch etherTypeOf(frame) {
	case etherIPv4:
		return b[9] == protocolIGMP
	case etherIPv6:
		if len(b) >= 49 && b[6] == 0 && b[40] == protocolICMPv6 && b[7] == 1 {
			switch b[48] { // behind eight bytes of hop-by-hop options
			case 131, 132, 143:
				return true
			}
		}
		return len(b) > 40 && b[6] == protocolICMPv6 && b[40] == 133
	}
	return false
}

// barrierFrame is a frame that no stack answers; serial tells it from others.
func barrierFrame(from mac, serial uint64) []byte {
	payload := make([]byte, 46)
	copy(payload, barrierMark)
	binary.BigEndian.PutUint64(payload[len(barrierMark):], serial)
	return frame(mac{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, from, etherBarrier, payload)
}

const barrierMark = "weft trace barrier "

func barrierSerial(frame []byte) (uint64, bool) {
	at := etherLen + len(barrierMark)
	if etherTypeOf(frame) != etherBarrier || len(frame) < at+8 || !bytes.Equal(frame[etherLen:at], []byte(barrierMark)) {
		return 0, false
	}
	return binary.BigEndian.Uint64(frame[at:]), true
}

// ends returns source and destination of an IP packet.
func ends(ip []byte) []netip.Addr {
	switch {
	case len(ip) >= 20 && ip[0]>>4 == 4:
		return []netip.Addr{netip.AddrFrom4([4]byte(ip[12:16])), netip.AddrFrom4([4]byte(ip[16:20]))}
	case len(ip) >= 40 && ip[0]>>4 == 6:
		return []netip.Addr{netip.AddrFrom16([16]byte(ip[8:24])), netip.AddrFrom16([16]byte(ip[24:40]))}
	}
	return nil
}
