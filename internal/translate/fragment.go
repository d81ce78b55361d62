package translate

// split4 sends payload in IPv4 packets of at most limit bytes, the fields of h
// being those of the whole (RFC 791 section 3.2). All share one buffer.
func split4(h ipv4, payload []byte, limit int) [][]byte {
	room := (limit - header4Len) &^ 7
	var out [][]byte
	buf := make([]byte, 0, len(payload)+header4Len*(len(payload)/room+1))
	for part, rest := h.frag, payload; len(rest) > 0; {
		n := min(room, len(rest))
		f := h
		f.frag = part
		f.frag.more = h.frag.more || n < len(rest)
		f.total = header4Len + n
		f.dont = false
		at := len(buf)
		buf = append(buf[:at+header4Len], rest[:n]...)
		f.put(buf[at:])
		out = append(out, buf[at:len(buf):len(buf)])
		rest = rest[n:]
		part.offset += n
	}
	return out
}

// split6 sends payload in IPv6 fragments of at most limit bytes, the fields of
// h being those of the whole (RFC 7915 section 4.1). All share one buffer.
func split6(h ipv6, payload []byte, limit int) [][]byte {
	room := (limit - header6Len - fragmentLen) &^ 7
	h.frag.present = true
	var out [][]byte
	buf := make([]byte, 0, len(payload)+(header6Len+fragmentLen)*(len(payload)/room+1))
	for part, rest := h.frag, payload; len(rest) > 0; {
		n := min(room, len(rest))
		f := h
		f.frag = part
		f.frag.more = h.frag.more || n < len(rest)
		f.payload = fragmentLen + n
		at := len(buf)
		buf = append(buf[:at+header6Len+fragmentLen], rest[:n]...)
		f.put(buf[at:])
		out = append(out, buf[at:len(buf):len(buf)])
		rest = rest[n:]
		part.offset += n
	}
	return out
}
