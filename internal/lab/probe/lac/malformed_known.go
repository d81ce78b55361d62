package lac

import (
	"bytes"
	"fmt"
)

// knownCases are the shapes that have made other programs read or write where
// they should not, or loop: each is our own equivalent of what was published.
func knownCases() []malformed {
	kind := func(n uint16) []byte { return avp(0, be16(n)) }
	hello, icrq, iccn := kind(6), kind(10), kind(12)
	call := join(icrq, avp(14, be16(777)), avp(15, make([]byte, 4)))
	control := func(name string, b []byte) malformed {
		return malformed{name, func(t *Tunnel, s *Session) []byte { return controlWith(t, 0, b) }}
	}
	frame := func(name string, b []byte) malformed {
		return malformed{name, func(t *Tunnel, s *Session) []byte { return join([]byte{0, 2}, be16(t.Peer), be16(s.Peer), b) }}
	}
	ppp := func(name string, protocol uint16, b []byte) malformed {
		return frame(name, join([]byte{0xff, 3}, be16(protocol), b))
	}
	packet := func(code, id byte, data []byte) []byte {
		return join([]byte{code, id}, be16(uint16(4+len(data))), data)
	}
	long := bytes.Repeat([]byte{'a'}, 1017)
	var list []malformed

	// tcpdump's print-l2tp.c (CVE-2017-13006, CVE-2003-1029): attributes that are
	// shorter than what they hold, one after another
	for _, a := range []struct{ attribute, least uint16 }{
		{1, 2}, {2, 2}, {3, 4}, {4, 4}, {5, 8}, {6, 2}, {9, 2}, {10, 2}, {12, 3}, {13, 16}, {14, 2}, {15, 4}, {16, 4}, {17, 4}, {18, 4},
		{19, 4}, {24, 4}, {25, 4}, {29, 2}, {32, 2}, {34, 26}, {35, 10}, {38, 4},
	} {
		short := make([]byte, a.least-1)
		list = append(list, control(fmt.Sprintf("attribute %d, a byte too short", a.attribute), join(hello, rawAVP(0x8000|(6+a.least-1), a.attribute, short))))
	}
	// xl2tpd: what is broken behind a hidden attribute; l2tpd (CVE-2002-0873,
	// CVE-2004-0649) and accel-ppp: names and numbers as long as they can be
	list = append(list,
		control("broken behind a hidden one", join(icrq, avp(36, make([]byte, 16)), rawAVP(0xc00a, 14, []byte{1, 2, 3, 4}), rawAVP(0x8000, 15, nil))),
		control("a result of one byte", join(kind(14), avp(14, be16(9)), rawAVP(0x8007, 1, []byte{1}))),
		control("a vendor's name without end", join(hello, rawAVP(0x83ff, 8, long))),
		control("a host name without end", join(hello, rawAVP(0x83ff, 7, long))),
		control("a calling number without end", join(call, rawAVP(0x83ff, 22, long))),
		control("a called number without end", join(call, rawAVP(0x83ff, 21, long))),
		control("a sub-address without end", join(call, rawAVP(0x83ff, 23, long))),
		control("a group without end", join(iccn, rawAVP(0x83ff, 37, long))),
		control("an error's text without end", join(kind(14), avp(14, be16(9)), rawAVP(0x83ff, 1, long))),
		control("a random vector without end", join(icrq, rawAVP(0x83ff, 36, long), rawAVP(0xc00a, 14, []byte{1, 2, 3, 4}))),
		control("a challenge without end", join(kind(1), avp(2, []byte{1, 0}), avp(7, []byte("x")), avp(9, be16(5)), rawAVP(0x83ff, 11, long))),
		control("LCP of a proxy that is cut", join(iccn, avp(27, []byte{1, 4}), avp(28, []byte{3, 200, 0xc0}))),
		control("a proxy's CHAP response without a challenge", join(iccn, avp(29, be16(2)), avp(30, []byte("x")), avp(33, make([]byte, 16)))),
		control("the end of a tunnel without an id", join(kind(4), rawAVP(0x8008, 1, be16(1)))),
		control("the end of another tunnel", join(kind(4), avp(9, be16(9999)), avp(1, be16(1)))),
	)
	// frames that end in their own header
	for _, b := range [][]byte{{0xff}, {0xff, 3}, {0xff, 3, 0xc0}, {0x21}, {0}, {0, 0}, {0xff, 3, 0xff, 0xff}} {
		list = append(list, frame(fmt.Sprintf("a frame of %x", b), b))
	}
	// tcpdump's print-ppp.c (CVE-2017-13029, CVE-2017-13038 and the like): options
	// and headers shorter than what they hold
	option := func(kind byte, data ...byte) []byte { return append([]byte{kind, byte(2 + len(data))}, data...) }
	for _, o := range [][]byte{
		option(1), option(2, 0, 0, 0), option(3, 0xc2, 0x23), option(4, 0xc0), option(5, 1, 2, 3), option(7, 1), option(8, 1), option(9, 1), option(13), option(13, 0),
		option(17, 1), option(19), option(19, 3), option(23), option(0), option(255, 1),
	} {
		list = append(list, ppp(fmt.Sprintf("an LCP option of %x", o), lcp, packet(configureRequest, 1, o)))
	}
	list = append(list,
		ppp("CCP whose option is cut", 0x80fd, packet(configureRequest, 1, []byte{18, 6, 0})),
		ppp("CCP whose option has length 0", 0x80fd, packet(configureRequest, 1, []byte{18, 0, 0, 0})),
		ppp("BACP whose option is cut", 0xc02b, packet(configureRequest, 1, []byte{1, 6, 0})),
		ppp("a multilink header that is cut", 0x3d, []byte{0xc0}),
		ppp("compressed headers", 0x2d, []byte{0x4f}),
		ppp("link quality that is cut", 0xc025, []byte{0, 0}),
		// pppd (CVE-2020-8597, CVE-2014-3158): values and names longer than anybody's
		ppp("an EAP response whose value is beyond it", 0xc227, packet(2, 1, []byte{4, 255, 1})),
		ppp("an EAP response with a name without end", 0xc227, packet(2, 1, join([]byte{4, 16}, make([]byte, 16), long))),
		ppp("an EAP request of length 0", 0xc227, []byte{1, 1, 0, 0, 4}),
		ppp("a CHAP response with a name without end", 0xc223, packet(2, 1, join([]byte{16}, make([]byte, 16), long))),
		ppp("a CHAP response of 255 bytes", 0xc223, packet(2, 1, join([]byte{255}, make([]byte, 255)))),
		ppp("a CHAP success to a server", 0xc223, packet(3, 1, nil)),
		ppp("a login of 255 bytes", pap, packet(1, 1, join([]byte{255}, long[:255], []byte{255}, long[:255]))),
		ppp("a login of no bytes", pap, packet(1, 1, []byte{0, 0})),
		ppp("a password that is cut", pap, packet(1, 1, []byte{1, 'a', 9, 'b'})),
		ppp("a Configure-Ack of what was not asked", lcp, packet(configureAck, 200, option(1, 0, 9))),
		ppp("a Configure-Nak of what was not asked", lcp, packet(configureNak, 1, bytes.Repeat(option(19, 3, 1, 2, 3, 4, 5, 6), 100))),
		ppp("a Configure-Reject of what must be", ipcp, packet(configureReject, 1, option(3, 0, 0, 0, 0))),
		ppp("a hundred options", lcp, packet(configureRequest, 1, bytes.Repeat(option(5, 1, 2, 3, 4), 100))),
		ppp("a Terminate-Request with a lot to say", lcp, packet(5, 1, long)),
		ppp("an Identification of no bytes", lcp, packet(12, 1, nil)),
		ppp("an echo reply that was never asked for", lcp, packet(echoReply, 77, make([]byte, 4))),
		ppp("an echo request with the server's own magic of zero", lcp, packet(echoRequest, 1, make([]byte, 4))),
		ppp("a Protocol-Reject of PAP", lcp, packet(protocolReject, 1, []byte{0xc0, 0x23})),
		ppp("a Protocol-Reject of one byte", lcp, packet(protocolReject, 1, []byte{0xc0})),
		ppp("a Code-Reject of nothing", lcp, packet(7, 1, nil)),
		ppp("IPCP's compression that is cut", ipcp, packet(configureRequest, 1, option(2, 0))),
		ppp("IPCP with a name server of three bytes", ipcp, packet(configureRequest, 1, option(129, 1, 2, 3))),
		ppp("IPV6CP of seven bytes", 0x8057, packet(configureRequest, 1, option(1, 1, 2, 3, 4, 5, 6, 7))),
		ppp("IPv4 of version 7", ipv4, join([]byte{0x75, 0, 0, 20}, make([]byte, 16))),
		ppp("IPv4 whose header is shorter than one", ipv4, join([]byte{0x44, 0, 0, 20}, make([]byte, 16))),
		ppp("IPv4 with an option of length 0", ipv4, join([]byte{0x46, 0, 0, 24}, make([]byte, 16), []byte{7, 0, 4, 0})),
		ppp("IPv4 shorter than its header", ipv4, join([]byte{0x45, 0, 0, 10}, make([]byte, 16))),
		ppp("a fragment beyond the largest packet", ipv4, join([]byte{0x45, 0, 0, 28, 0, 1, 0x1f, 0xff, 64, 17}, make([]byte, 18))),
	)
	return list
}
