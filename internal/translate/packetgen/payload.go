package packetgen

import "weft/wire/checksum/checksumtest"

import "net/netip"

const (
	tcp   = 6
	udp   = 17
	icmp4 = 1
	icmp6 = 58
)

// payload builds what follows the IP header of a packet between src and dst,
// at most most bytes, and gives its protocol.
func (g *Gen) payload(src, dst netip.Addr, most int) ([]byte, byte) {
	v6 := src.Is6()
	switch n := g.r.IntN(100); {
	case n < 35:
		return g.tcp(src, dst, most), tcp
	case n < 65:
		return g.udp(src, dst, most), udp
	case n < 82:
		return g.echo(src, dst, most)
	case n < 87:
		return g.otherICMP(src, dst)
	case n < 93:
		return g.icmpError(src, dst, most)
	}
	g.note("other")
	protocol := pick[byte](g, 50, 47, 33, 132, 59, 51, 2)
	if protocol == 51 {
		g.note("auth")
	}
	if v6 && protocol == 51 { // next header TCP, 24 bytes
		return append([]byte{6, 4, 0, 0}, g.bytes(20+min(most-24, 40))...), protocol
	}
	return g.bytes(g.size(most)), protocol
}

func (g *Gen) tcp(src, dst netip.Addr, most int) []byte {
	g.note("tcp")
	flags := pick[byte](g, 0x10, 0x18, 0x11, 0x04)
	var options []byte
	if g.chance(30) {
		g.note("syn")
		flags = pick[byte](g, 0x02, 0x12)
		options = g.tcpOptions()
	}
	seg := append(g.bytes(20), options...)
	seg = append(seg, g.bytes(g.size(most-len(seg)))...)
	seg[12], seg[13] = byte(5+len(options)/4)<<4, flags
	if g.chance(2) {
		g.note("data-offset")
		seg[12] = byte(g.r.Uint32())
	}
	return g.seal(seg, 16, src, dst, tcp)
}

// tcpOptions builds options with an MSS at an even or odd place, none, or one
// that does not parse; padded to a multiple of four.
func (g *Gen) tcpOptions() []byte {
	var o []byte
	for range g.r.IntN(3) {
		o = append(o, pick(g, []byte{1}, []byte{3, 3, 7}, []byte{4, 2}, []byte{8, 10, 1, 2, 3, 4, 5, 6, 7, 8})...)
	}
	if g.chance(90) {
		g.note("mss")
		mss := pick(g, 536, 1220, 1440, 1460, 8960, g.r.IntN(65536))
		o = append(o, 2, 4, byte(mss>>8), byte(mss))
	}
	if g.chance(5) {
		g.note("bad-option")
		o = append(o, pick(g, []byte{2, 0}, []byte{5, 255}, []byte{2, 1})...)
	}
	for len(o)%4 != 0 {
		o = append(o, pick[byte](g, 0, 1))
	}
	return o
}

func (g *Gen) udp(src, dst netip.Addr, most int) []byte {
	g.note("udp")
	seg := g.bytes(8 + g.size(most-8))
	put16(seg[4:], len(seg))
	if g.chance(4) {
		g.note("udp-length")
		put16(seg[4:], pick(g, 0, 7, len(seg)+1, len(seg)-1, 65535))
	}
	if g.chance(12) {
		g.note("no-checksum")
		put16(seg[6:], 0)
		return seg
	}
	return g.seal(seg, 6, src, dst, udp)
}

func (g *Gen) echo(src, dst netip.Addr, most int) ([]byte, byte) {
	g.note("echo")
	msg := g.bytes(8 + g.size(most-8))
	msg[1] = 0
	if src.Is6() {
		msg[0] = pick[byte](g, 128, 129)
		return g.seal(msg, 2, src, dst, icmp6), icmp6
	}
	msg[0] = pick[byte](g, 8, 0)
	return g.seal(msg, 2, src, dst, icmp4), icmp4
}

// otherICMP builds messages that are not translated: neighbour discovery, multicast
// listeners, timestamps, redirects, unassigned types.
func (g *Gen) otherICMP(src, dst netip.Addr) ([]byte, byte) {
	g.note("icmp-other")
	msg := g.bytes(8 + g.r.IntN(40))
	if src.Is6() {
		msg[0], msg[1] = pick[byte](g, 130, 133, 135, 136, 137, 143, 200, 0, 100), 0
		return g.seal(msg, 2, src, dst, icmp6), icmp6
	}
	msg[0] = pick[byte](g, 4, 5, 9, 10, 13, 14, 17, 40)
	return g.seal(msg, 2, src, dst, icmp4), icmp4
}

// icmpError builds an error that quotes a packet from dst to src, all of it or
// a part, now and then with extensions (RFC 4884).
func (g *Gen) icmpError(src, dst netip.Addr, most int) ([]byte, byte) {
	g.note("icmp-error")
	msg := make([]byte, 8)
	room := min(most-8, pick(g, 552, 552, 1400))
	var quoted []byte
	protocol := byte(icmp4)
	if src.Is6() {
		protocol = icmp6
		msg[0], msg[1] = pick[byte](g, 1, 1, 2, 3, 4), byte(g.r.IntN(5))
		put16(msg[6:], pick(g, 1280, 1400, 1492, 1500, g.r.IntN(48)))
		quoted = g.plain6(dst, src, room-40)
	} else {
		msg[0], msg[1] = pick[byte](g, 3, 3, 3, 11, 12), byte(g.r.IntN(16))
		if msg[0] == 3 {
			put16(msg[6:], pick(g, 0, 576, 1400, 1500))
		} else {
			msg[4] = byte(g.r.IntN(24))
		}
		quoted = g.plain4(dst, src, room-20)
	}
	if g.chance(40) {
		g.note("quote-cut")
		quoted = quoted[:g.r.IntN(len(quoted)+1)]
	}
	if g.chance(20) {
		quoted = g.extend(msg, quoted)
	}
	return g.seal(append(msg, quoted...), 2, src, dst, protocol), protocol
}

// extend pads quoted, sets the length attribute and appends an RFC 4884
// structure with one object, an RFC 5837 interface index.
func (g *Gen) extend(msg, quoted []byte) []byte {
	at, unit := 5, 4
	if msg[0] < 3 || msg[0] == 3 && len(quoted) > 0 && quoted[0]>>4 == 6 {
		at, unit = 4, 8
	}
	if msg[0] == 2 || msg[0] == 4 {
		return quoted
	}
	g.note("extensions")
	for len(quoted) < 128 || len(quoted)%unit != 0 {
		quoted = append(quoted, 0)
	}
	msg[at] = byte(len(quoted) / unit)
	ext := []byte{0x20, 0, 0, 0, 0, 8, 2, 0x08, 0, 0, 0, byte(g.r.Uint32())}
	put16(ext[2:], int(checksumtest.Of(ext)))
	return append(quoted, ext...)
}

// plain is a whole, sound segment for a quoted packet.
func (g *Gen) plain(src, dst netip.Addr, most int) ([]byte, byte) {
	most = max(most, 64)
	switch g.r.IntN(3) {
	case 0:
		seg := g.bytes(20 + g.r.IntN(most-20))
		seg[12], seg[13] = 0x50, 0x10
		return g.seal(seg, 16, src, dst, tcp), tcp
	case 1:
		seg := g.bytes(8 + g.r.IntN(most-8))
		put16(seg[4:], len(seg))
		return g.seal(seg, 6, src, dst, udp), udp
	}
	return g.echo(src, dst, most)
}

// seal fills in the checksum at seg[at:]; a few come out wrong.
func (g *Gen) seal(seg []byte, at int, src, dst netip.Addr, protocol byte) []byte {
	put16(seg[at:], 0)
	var check uint16
	if protocol == icmp4 {
		check = checksumtest.Of(seg)
	} else {
		check = checksumtest.Of(pseudo(src, dst, len(seg), protocol), seg)
	}
	if protocol == udp && check == 0 {
		check = 0xffff
	}
	if g.chance(3) {
		g.note("wrong-checksum")
		check ^= uint16(1 + g.r.IntN(0xffff))
	}
	put16(seg[at:], int(check))
	return seg
}
