package translate

import (
	"net/netip"
	"slices"

	"weft/internal/state"
	"weft/wire/checksum"
)

// Bindings is the state of a stateful translator (RFC 6146 section 3.1).
type Bindings interface {
	// Resolve returns the addresses and ports after translation, or the outcome
	// that the packet meets. State is made and moved on as by any packet.
	Resolve(state.Tuple) (state.Tuple, state.Outcome)
	// Session returns the node that has a session, and its far end as the node
	// knows it. It moves nothing on.
	Session(protocol uint8, pool, remote netip.AddrPort) (client, remote6 netip.AddrPort, ok bool)
	// Binding returns the pool's address and port that stand for a node's in its
	// session with a far end, which it knows as remote6.
	Binding(protocol uint8, client, remote6, remote netip.AddrPort) (pool netip.AddrPort, ok bool)
}

// Stateful is the slow path of stateful translation (RFC 6146). It leaves
// the state to Bindings and the headers to the stateless algorithm: it finds out
// which two transport addresses belong to each other, changes the port, and
// gives the packet to a translator that knows just this pair.
type Stateful struct {
	Bindings Bindings
	Parts    *Reassembler
}

// stand-ins, to ask whether a packet could be translated before any state is
// made for it: IPv4 dummy address (RFC 7600), discard prefix (RFC 6666)
func standIn4() netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 0, 8}) }
func standIn6() netip.Addr { return netip.AddrFrom16([16]byte{0: 1, 15: 1}) }

// pairing returns c as it is when these two addresses stand for each other.
func (c *Config) pairing(v6, v4 netip.Addr) *Config {
	t := *c
	t.Table = NewTable(c.Table.prefix, []Mapping{{IPv6: netip.PrefixFrom(v6, 128), IPv4: netip.PrefixFrom(v4, 32)}})
	t.Translatable = nil
	t.ErrorSource4 = []netip.Addr{v4} // RFC 6146 section 3.6.1: errors come from the pool's address
	return &t
}

// under returns c as it is for sessions whose far ends are under the prefix that
// a is in: one of several, or the only one.
func (c *Config) under(a netip.Addr) *Config {
	for _, p := range c.Prefixes {
		if p.Contains(a) && p != c.Table.prefix {
			t := *c
			t.Table, t.GlobalOnly = NewTable(p, nil), p == WellKnownPrefix()
			return &t
		}
	}
	return c
}

// Translate6 translates a packet from IPv6, at a time in ns.
func (s *Stateful) Translate6(c *Config, now int64, pkt []byte) Result {
	pkt, o := cut6(pkt)
	if o != state.OutcomeNone {
		return drop(o)
	}
	if linkScope6(dst6(pkt)) {
		return drop(state.PassLinkScope)
	}
	c = c.under(dst6(pkt))
	if _, ok := c.Table.To4(dst6(pkt)); !ok {
		return drop(state.PassNotTranslated)
	}
	ch, o := follow(pkt)
	if o != state.OutcomeNone {
		return c.pairing(src6(pkt), standIn4()).Translate6(pkt)
	}
	if !ch.frag.whole() {
		cut := *c
		cut.Recut = true
		c = &cut
	}
	if pkt, o = s.Parts.whole6(now, pkt, ch); pkt == nil {
		return drop(o)
	}
	if ch, o = follow(pkt); o != state.OutcomeNone {
		return drop(o)
	}
	if ch.protocol == protocolICMP6 && ch.payload < len(pkt) && pkt[ch.payload] < 128 {
		return s.error6(c, pkt, ch)
	}
	if r := c.pairing(src6(pkt), standIn4()).Translate6(pkt); r.Outcome != state.Forward6to4 {
		return r
	}
	t, at := tuple(ch.protocol, pkt[ch.payload:])
	if at < 0 {
		// RFC 6146 section 3.4: port unreachable
		return Result{Outcome: state.DropProtocol, Reply: c.reply6(pkt, icmp6Unreachable, 4, 0)}
	}
	port := t.From.Port()
	t.From, t.To = netip.AddrPortFrom(src6(pkt), port), netip.AddrPortFrom(dst6(pkt), t.To.Port())
	out, o := s.Bindings.Resolve(t)
	if o != state.OutcomeNone {
		return Result{Outcome: o, Reply: c.refusal6(pkt, o)}
	}
	pkt = slices.Clone(pkt)
	repair(pkt[ch.payload:], ch.protocol, at, port, out.From.Port())
	return c.pairing(src6(pkt), out.From.Addr()).Translate6(pkt)
}

// refusal6 is the error that the sender of a packet without binding is due
// (RFC 6146 section 3.5.1.1): address unreachable.
func (c *Config) refusal6(pkt []byte, o state.Outcome) []byte {
	switch o {
	case state.DropPoolExhausted, state.DropTableFull, state.DropSubscriberLimit:
		return c.reply6(pkt, icmp6Unreachable, 3, 0)
	}
	return nil
}

// Translate4 translates a packet from IPv4 to a pool's address, at a time in ns.
func (s *Stateful) Translate4(c *Config, now int64, pkt []byte) Result {
	pkt, o := cut4(pkt)
	if o != state.OutcomeNone {
		return drop(o)
	}
	if checksum.Sum(pkt[:ihl4(pkt)], 0) != 0xffff {
		return drop(state.DropIpv4Checksum)
	}
	if pkt, o = s.Parts.whole4(now, pkt); pkt == nil {
		return drop(o)
	}
	ihl := ihl4(pkt)
	if carriesError4(pkt) {
		return s.error4(c, pkt)
	}
	if r := c.pairing(standIn6(), dst4(pkt)).Translate4(pkt); r.Outcome != state.Forward4to6 {
		return r
	}
	t, at := tuple(pkt[9], pkt[ihl:])
	if at < 0 {
		return drop(state.DropProtocol)
	}
	if pkt[9] != protocolICMP4 {
		at = 2
	}
	port := t.To.Port()
	t.From, t.To = netip.AddrPortFrom(src4(pkt), t.From.Port()), netip.AddrPortFrom(dst4(pkt), port)
	in, o := s.Bindings.Resolve(t)
	if o != state.OutcomeNone {
		return drop(o)
	}
	pkt = slices.Clone(pkt)
	repair(pkt[ihl:], pkt[9], at, port, in.To.Port())
	return c.under(in.From.Addr()).pairing(in.To.Addr(), dst4(pkt)).Translate4(pkt)
}

// tuple reads ports, flags, and where the source's port is; -1 if there is none.
// An address is not in it. The protocol may be either family's.
func tuple(protocol byte, seg []byte) (t state.Tuple, at int) {
	t.Protocol = protocol
	port := func(at int) netip.AddrPort { return netip.AddrPortFrom(netip.Addr{}, get16(seg[at:])) }
	switch {
	case protocol == protocolTCP && len(seg) >= tcpLen:
		t.From, t.To, t.Flags = port(0), port(2), seg[13]
		return t, 0
	case protocol == protocolUDP && len(seg) >= udpLen:
		t.From, t.To = port(0), port(2)
		return t, 0
	case (protocol == protocolICMP6 || protocol == protocolICMP4) && len(seg) >= icmpLen:
		t.Protocol, t.From, t.To = protocolICMP4, port(4), port(4)
		if seg[0] == icmp6Echo || seg[0] == icmp4Echo && protocol == protocolICMP4 {
			t.Flags = 1
		}
		return t, 4
	}
	return t, -1
}

// repair puts a port, or an identifier, at seg[at:] and adjusts the checksum,
// if it has come that far.
func repair(seg []byte, protocol byte, at int, old, fresh uint16) {
	put16(seg[at:], fresh)
	switch protocol {
	case protocolTCP:
		if len(seg) >= 18 {
			adjustAt(seg, 16, uint32(old), uint32(fresh))
		}
	case protocolUDP:
		if len(seg) >= udpLen && get16(seg[6:]) != 0 {
			putUDP(seg, checksum.Adjust(get16(seg[6:]), uint32(old), uint32(fresh)))
		}
	default:
		if len(seg) >= 4 {
			adjustAt(seg, 2, uint32(old), uint32(fresh))
		}
	}
}

// quoted is the transport address of the packet that an ICMP error quotes.
type quoted struct {
	protocol byte // as it stands there
	seg      []byte
	src, dst uint16
	at       int // of the port to change: that of the node behind the translator
}

// readQuoted reads ports out of a quoted segment, which may be cut off behind
// them. near tells whether the node is its source.
func readQuoted(protocol byte, seg []byte, near bool) (q quoted, ok bool) {
	q = quoted{protocol: protocol, seg: seg}
	switch protocol {
	case protocolTCP, protocolUDP:
		if len(seg) < 4 {
			return q, false
		}
		q.src, q.dst = get16(seg), get16(seg[2:])
		if !near {
			q.at = 2
		}
	case protocolICMP4, protocolICMP6:
		if len(seg) < 6 {
			return q, false
		}
		q.src, q.dst, q.at = get16(seg[4:]), get16(seg[4:]), 4
	default:
		return q, false
	}
	return q, true
}

func (q quoted) protocol4() uint8 {
	if q.protocol == protocolICMP6 {
		return protocolICMP4
	}
	return q.protocol
}

// change puts another port into the quoted packet, and makes the checksum of
// the error around it right again. msg is the whole ICMP message.
func (q quoted) change(msg []byte, old, fresh uint16) {
	before := checksum.Sum(msg[4:], 0)
	repair(q.seg, q.protocol, q.at, old, fresh)
	adjustAt(msg, 2, before, checksum.Sum(msg[4:], 0))
}

// error4 translates an ICMPv4 error. The packet that it quotes must belong to
// a session (RFC 5508 section 4, RFC 6146 section 3.2): else it is made up.
func (s *Stateful) error4(c *Config, pkt []byte) Result {
	ihl := ihl4(pkt)
	pkt = slices.Clone(pkt)
	msg := pkt[ihl:]
	if len(msg) < icmpLen+header4Len {
		return drop(state.DropTruncated)
	}
	if _, _, ok := error4Type(msg[0], msg[1]); !ok {
		return drop(state.DropIcmpType)
	}
	inner := msg[icmpLen:]
	if inner[0]>>4 != 4 || ihl4(inner) < header4Len || ihl4(inner) > len(inner) {
		return drop(state.DropBadHeader)
	}
	// RFC 5508 REQ-3: what got broken under way says nothing of a session
	if checksum.Sum(msg, 0) != 0xffff {
		return drop(state.DropBadHeader)
	}
	if checksum.Sum(inner[:ihl4(inner)], 0) != 0xffff {
		return drop(state.DropIpv4Checksum)
	}
	if frag, _ := fragment4(inner); !frag.first() {
		return drop(state.DropNoBinding)
	}
	q, ok := readQuoted(inner[9], inner[ihl4(inner):], true)
	if !ok || src4(inner) != dst4(pkt) {
		return drop(state.DropNoBinding)
	}
	pool, remote := netip.AddrPortFrom(src4(inner), q.src), netip.AddrPortFrom(dst4(inner), q.dst)
	client, remote6, ok := s.Bindings.Session(q.protocol4(), pool, remote)
	if !ok {
		return drop(state.DropNoBinding)
	}
	q.change(msg, q.src, client.Port())
	return c.under(remote6.Addr()).pairing(client.Addr(), pool.Addr()).Translate4(pkt)
}

// error6 translates an ICMPv6 error, likewise. It may come from any router on
// the way; to IPv4 it comes from the pool's address.
func (s *Stateful) error6(c *Config, pkt []byte, ch chain) Result {
	pkt = slices.Clone(pkt)
	msg := pkt[ch.payload:]
	if len(msg) < icmpLen+header6Len {
		return drop(state.DropTruncated)
	}
	if _, _, ok := error6Type(msg[0], msg[1]); !ok {
		return drop(state.DropIcmpType)
	}
	inner := msg[icmpLen:]
	// RFC 5508 REQ-3
	if inner[0]>>4 != 6 || checksum.Sum(msg, checksum.Sum(pkt[8:40], uint32(len(msg))+protocolICMP6)) != 0xffff {
		return drop(state.DropBadHeader)
	}
	within, o := follow(inner)
	if o != state.OutcomeNone {
		return drop(o)
	}
	if !within.frag.first() {
		return drop(state.DropNoBinding)
	}
	q, ok := readQuoted(within.protocol, inner[within.payload:], false)
	remote4, known := c.Table.To4(src6(inner))
	if !ok || !known || src6(inner) != dst6(pkt) {
		return drop(state.DropNoBinding)
	}
	client := netip.AddrPortFrom(dst6(inner), q.dst)
	pool, ok := s.Bindings.Binding(q.protocol4(), client, netip.AddrPortFrom(src6(inner), q.src), netip.AddrPortFrom(remote4, q.src))
	if !ok {
		return drop(state.DropNoBinding)
	}
	q.change(msg, q.dst, pool.Port())
	return c.pairing(client.Addr(), pool.Addr()).Translate6(pkt)
}

// Unreachable answers an IPv4 packet that has found no session with an ICMPv4 error,
// port unreachable (RFC 6146 section 3.5.2.2, V4 INIT).
func (c *Config) Unreachable(pkt []byte) []byte { return c.reply4(pkt, icmp4Unreachable, 3, 0) }
