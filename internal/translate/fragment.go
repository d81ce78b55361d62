package translate

// pieces cuts payload, which is the part whole of a datagram, into parts of at
// most room bytes, a multiple of eight but for the last.
func pieces(whole fragment, payload []byte, room int, yield func(part fragment, data []byte)) {
	part := whole
	part.present = true
	for room &^= 7; len(payload) > room; payload = payload[room:] {
		part.more = true
		yield(part, payload[:room])
		part.offset += room
	}
	part.more = whole.more
	yield(part, payload)
}

// split4 sends payload in IPv4 packets of at most limit bytes, the fields of h
// being those of the whole (RFC 791 section 3.2). All share one buffer.
func split4(h ipv4, payload []byte, limit int) (out [][]byte) {
	room := limit - header4Len
	buf := make([]byte, 0, len(payload)+header4Len*(len(payload)/(room&^7)+1))
	h.dont = false
	pieces(h.frag, payload, room, func(part fragment, data []byte) {
		h.frag, h.total = part, header4Len+len(data)
		at := len(buf)
		buf = append(buf[:at+header4Len], data...)
		h.put(buf[at:])
		out = append(out, buf[at:len(buf):len(buf)])
	})
	return out
}

// split6 sends payload in IPv6 fragments of at most limit bytes, the fields of
// h being those of the whole (RFC 7915 section 4.1). All share one buffer.
func split6(h ipv6, payload []byte, limit int) (out [][]byte) {
	room := limit - headroom
	buf := make([]byte, 0, len(payload)+headroom*(len(payload)/(room&^7)+1))
	pieces(h.frag, payload, room, func(part fragment, data []byte) {
		h.frag, h.payload = part, fragmentLen+len(data)
		at := len(buf)
		buf = append(buf[:at+headroom], data...)
		h.put(buf[at:])
		out = append(out, buf[at:len(buf):len(buf)])
	})
	return out
}
