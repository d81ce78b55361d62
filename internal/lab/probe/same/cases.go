// Package same sends the same packets through two routers that translate between
// IPv6 and IPv4, and compares their output, case by case.
package same

import "net/netip"

// Ends are the addresses that the routers of a comparison know: two members
// with mappings, and a prefix for everybody else.
type Ends struct {
	Member6, Member4 netip.Addr   // one node, in both families
	Second6, Second4 netip.Addr   // another
	Server6, Server4 netip.Addr   // an IPv4 node, in both families
	Outsider6        netip.Addr   // an IPv6 router without mapping
	Prefix           netip.Prefix // RFC 6052, of 96 bits
}

// Case is one packet to send.
type Case struct {
	Name   string
	Packet []byte // IPv6 from the member's side, IPv4 from the server's
	Why    string // what allows the two to differ; empty: they must not
}

// Cases lists the packets, all of them for e.
func Cases(e Ends) []Case {
	return append(append(plain(e), broken(e)...), quoting(e)...)
}

func plain(e Ends) []Case {
	m, s, M, S := e.Member6, e.Server6, e.Member4, e.Server4
	mss := []byte{2, 4, 0x05, 0xa0}
	fragment := func(word uint16, n int) []byte {
		whole := udpSegment(m, s, 64)
		return v6(m, s, 44, append(append([]byte{udp, 0}, bin(word, 0xaaaa, 0x1234)...), whole[:n]...))
	}
	marked := v6(m, s, udp, udpSegment(m, s, 5))
	marked[0], marked[1] = 0x6b, 0x81
	return []Case{
		{"UDP, IPv6", v6(m, s, udp, udpSegment(m, s, 5)), ""},
		{"UDP, IPv4", v4(S, M, udp, 0x4000, nil, udpSegment(S, M, 5)), ""},
		{"TCP SYN, IPv6", v6(m, s, tcp, tcpSegment(m, s, 2, mss, 0)), ""},
		{"TCP SYN, IPv4", v4(S, M, tcp, 0x4000, nil, tcpSegment(S, M, 2, mss, 0)), ""},
		{"echo request, IPv6", v6(m, s, icmp6, message(m, s, 128, 0, 0x00070001, bytesOf(32))), ""},
		{"echo reply, IPv6", v6(m, s, icmp6, message(m, s, 129, 0, 0x00070001, bytesOf(33))), ""},
		{"echo request, IPv4", v4(S, M, icmp4, 0, nil, message(S, M, 8, 0, 0x00070001, bytesOf(32))), ""},
		{"echo reply, IPv4", v4(S, M, icmp4, 0, nil, message(S, M, 0, 0, 0x00070001, bytesOf(33))), ""},
		{"GRE, IPv6", v6(m, s, 47, bytesOf(40)), ""},
		{"GRE, IPv4", v4(S, M, 47, 0x4000, nil, bytesOf(40)), ""},
		{"a traffic class and a flow label", marked, "Jool 4.1.9 loses the precedence bits of the traffic class, of which RFC 7915 section 5.1 copies all"},
		{"1260 bytes that become IPv4", v6(m, s, udp, udpSegment(m, s, 1260-28)), ""},
		{"1261 bytes that become IPv4", v6(m, s, udp, udpSegment(m, s, 1261-28)), ""},
		{"IPv4 without DF, 1260 bytes", v4(S, M, udp, 0, nil, udpSegment(S, M, 1260-28)), ""},
		{"IPv4 without DF, 1300 bytes", v4(S, M, udp, 0, nil, udpSegment(S, M, 1300-28)), ""},
		{"IPv4 with DF, 1480 bytes", v4(S, M, udp, 0x4000, nil, udpSegment(S, M, 1480-28)), ""},
		{"IPv4 with DF, 1500 bytes", v4(S, M, udp, 0x4000, nil, udpSegment(S, M, 1500-28)), ""},
		{"a first fragment, IPv6", fragment(1, 40), ""},
		{"a later fragment, IPv6", fragment(40, 32), ""},
		{"an atomic fragment, IPv6", fragment(0, 72), ""},
		{"a first fragment, IPv4", v4(S, M, udp, 0x2000, nil, udpSegment(S, M, 64)[:40]), ""},
		{"a later fragment, IPv4", v4(S, M, udp, 5, nil, udpSegment(S, M, 64)[40:]), ""},
		{"hop-by-hop options", v6(m, s, 0, append([]byte{udp, 0, 1, 4, 0, 0, 0, 0}, udpSegment(m, s, 5)...)), ""},
		{"destination options", v6(m, s, 60, append([]byte{udp, 0, 1, 4, 0, 0, 0, 0}, udpSegment(m, s, 5)...)), ""},
		{"IPv4 options", v4(S, M, udp, 0x4000, []byte{1, 1, 1, 0}, udpSegment(S, M, 5)), ""},
		{"from one member to the other by IPv4", v6(m, mapped(e, e.Second4), udp, udpSegment(m, mapped(e, e.Second4), 5)), ""},
	}
}

func broken(e Ends) []Case {
	m, s, M, S, x := e.Member6, e.Server6, e.Member4, e.Server4, e.Outsider6
	zero := func(word uint16) []byte {
		seg := udpSegment(S, M, 5)
		copy(seg[6:], bin(0))
		return v4(S, M, udp, word, nil, seg)
	}
	ended6, ended4 := v6(m, s, udp, udpSegment(m, s, 5)), v4(S, M, udp, 0x4000, nil, udpSegment(S, M, 5))
	ended6[7], ended4[8] = 1, 1
	seal4(ended4)
	routing := func(left byte) []byte {
		return v6(m, s, 43, append(append([]byte{udp, 2, 0, left, 0, 0, 0, 0}, x.AsSlice()...), udpSegment(m, s, 5)...))
	}
	damaged := udpSegment(m, s, 5)
	damaged[6] ^= 1
	return []Case{
		{"a wrong UDP checksum stays wrong", v6(m, s, udp, damaged), ""},
		{"UDP without checksum", zero(0x4000), ""},
		{"a source without mapping", v6(x, s, udp, udpSegment(x, s, 5)), "Jool leaves it to the kernel, which routes it on as IPv6; weft tells the sender (RFC 7915 section 5.4)"},
		{"hop limit 1", ended6, "the error is made by one of the router's stacks, in one family or the other"},
		{"TTL 1", ended4, ""},
		{"a routing header with segments left", routing(1), ""},
		{"a routing header that is used up", routing(0), ""},
		{"a source route", v4(S, M, udp, 0x4000, []byte{0x83, 7, 4, 192, 0, 2, 1, 0}, udpSegment(S, M, 5)), ""},
		{"a source route that is used up", v4(S, M, udp, 0x4000, []byte{0x83, 7, 8, 192, 0, 2, 1, 0}, udpSegment(S, M, 5)), ""},
		{"a neighbour solicitation for an unknown address", v6(m, s, icmp6, message(m, s, 135, 0, 0, bytesOf(16))), ""},
		{"an ICMP timestamp request", v4(S, M, icmp4, 0x4000, nil, message(S, M, 13, 0, 1, bytesOf(12))), ""},
	}
}

func quoting(e Ends) []Case {
	m, s, M, S, x := e.Member6, e.Server6, e.Member4, e.Server4, e.Outsider6
	sent6 := v6(s, m, udp, udpSegment(s, m, 30)) // what the member complains about
	sent4 := v4(M, S, udp, 0x4000, nil, udpSegment(M, S, 30))
	six := func(from netip.Addr, kind, code byte, rest uint32) []byte {
		return v6(from, s, icmp6, message(from, s, kind, code, rest, sent6))
	}
	four := func(from netip.Addr, kind, code byte, rest uint32) []byte {
		return v4(from, M, icmp4, 0x4000, nil, message(from, M, kind, code, rest, sent4))
	}
	long := v4(M, S, udp, 0x4000, nil, udpSegment(M, S, 1380))
	return []Case{
		{"no route, IPv6", six(m, 1, 0, 0), ""},
		{"port unreachable, IPv6", six(m, 1, 4, 0), ""},
		{"prohibited, IPv6", six(m, 1, 1, 0), ""},
		{"packet too big, 1400", six(m, 2, 0, 1400), ""},
		{"packet too big, 1280", six(m, 2, 0, 1280), ""},
		{"hop limit exceeded, IPv6", six(m, 3, 0, 0), ""},
		{"parameter problem at the hop limit", six(m, 4, 0, 7), ""},
		{"parameter problem at the flow label", six(m, 4, 0, 2), ""},
		{"unknown next header", six(m, 4, 1, 6), ""},
		{"hop limit exceeded at a router without mapping", six(x, 3, 0, 0), "the source is one of each router's own (RFC 6791)"},
		{"host unreachable, IPv4", four(S, 3, 1, 0), ""},
		{"protocol unreachable", four(S, 3, 2, 0), ""},
		{"port unreachable, IPv4", four(S, 3, 3, 0), ""},
		{"fragmentation needed, 1400", four(S, 3, 4, 1400), ""},
		{"fragmentation needed, no MTU", four(S, 3, 4, 0), ""},
		{"prohibited, IPv4", four(S, 3, 13, 0), ""},
		{"TTL exceeded, IPv4", four(S, 11, 0, 0), ""},
		{"parameter problem at the TTL", four(S, 12, 0, 8<<24), ""},
		{"parameter problem at the identification", four(S, 12, 0, 4<<24), ""},
		{"a redirect", four(S, 5, 1, 0), ""},
		{"an error from another router", four(netip.AddrFrom4([4]byte{203, 0, 113, 77}), 11, 0, 0), ""},
		{"an error from 127.0.0.1", four(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 11, 0, 0), ""},
		{"an error of 1436 bytes", v4(S, M, icmp4, 0x4000, nil, message(S, M, 3, 3, 0, long)), ""},
	}
}

// mapped returns a under the prefix of e.
func mapped(e Ends, a netip.Addr) netip.Addr {
	b := e.Prefix.Addr().As16()
	copy(b[12:], a.AsSlice())
	return netip.AddrFrom16(b)
}
