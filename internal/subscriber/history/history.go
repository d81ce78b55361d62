// Package history keeps the last control messages of a session or a tunnel in little
// space, and says what they were for people (weft show subscribers WHO).
package history

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"weft/internal/ppp"
	"weft/wire/dhcp6"
	"weft/wire/ipv6"
	wirel2tp "weft/wire/l2tp"
	wireppp "weft/wire/ppp"
)

// Log is the last control messages of a session or of a tunnel, both ways,
// one behind the other in a few hundred bytes, as there are many: what people read
// is made when they ask.
type Log struct {
	b    []byte // of each: the time since the one before, kind, size, bytes
	last int64  // when the newest was, µs
	n    uint8
}

// Most is how many messages are remembered: setting a session up takes
// some 26, and echoes are left out.
const Most = 28

// eventBytes is how much of each, resultBytes of one that says why something ended: it is
// the one that people look for, and there is one of it.
const (
	eventBytes  = 29
	resultBytes = 160
)

// historyGrows is by how much there is room for more, so that little stays empty.
const historyGrows = 96

type event struct {
	since int64 // µs behind the one before
	kind  eventKind
	b     []byte
}

type eventKind uint8

const (
	eventPPP  eventKind = 1 // protocol, then the packet
	eventL2TP eventKind = 2 // type; result, error, text
	eventCut  eventKind = 0x40
	eventSent eventKind = 0x80
)

func (h *Log) add(kind eventKind, sent bool, b []byte, now time.Time) {
	if sent {
		kind |= eventSent
	}
	most := eventBytes
	if kind&^eventSent == eventL2TP {
		most = resultBytes
	}
	if len(b) > most {
		kind, b = kind|eventCut, b[:most]
	}
	if h.n == Most {
		_, size := h.first()
		h.b = h.b[:copy(h.b, h.b[size:])]
		h.n--
	}
	at := now.UnixMicro()
	if need := binary.MaxVarintLen64 + 2 + len(b); cap(h.b)-len(h.b) < need {
		h.b = append(make([]byte, 0, len(h.b)+max(need, historyGrows)), h.b...)
	}
	h.b = binary.AppendVarint(h.b, at-h.last)
	h.b = append(append(h.b, byte(kind), byte(len(b))), b...)
	h.last = at
	h.n++
}

// first reads the oldest message, and tells how many bytes it takes.
func (h *Log) first() (event, int) { return readEvent(h.b) }

func readEvent(b []byte) (event, int) {
	since, n := binary.Varint(b)
	size := int(b[n+1])
	return event{since, eventKind(b[n]), b[n+2 : n+2+size]}, n + 2 + size
}

// Raw returns the bytes in which they are kept.
func (h *Log) Raw() []byte { return h.b }

// events gives all, the oldest first.
func (h *Log) events() []event {
	list := make([]event, 0, h.n)
	for at := 0; at < len(h.b); {
		e, size := readEvent(h.b[at:])
		list = append(list, e)
		at += size
	}
	return list
}

// PPP notes a frame, unless it is data or an echo: those would push out all
// others. Of authentication only the kind of message is kept.
func (h *Log) PPP(sent bool, p wireppp.Protocol, b []byte, now time.Time) {
	switch p {
	case wireppp.IPv4:
		return
	case wireppp.IPv6:
		if len(b) <= ipv6.HeaderLen || b[8] != 0xfe { // not from a link-local address
			return
		}
		b = append([]byte{b[6]}, b[ipv6.HeaderLen:min(len(b), ipv6.HeaderLen+9)]...)
	case wireppp.LCP:
		if len(b) > 0 && (wireppp.Code(b[0]) == wireppp.EchoRequest || wireppp.Code(b[0]) == wireppp.EchoReply) {
			return
		}
	case wireppp.PAP, wireppp.CHAP:
		b = b[:min(len(b), 2)]
	}
	h.add(eventPPP, sent, append(binary.BigEndian.AppendUint16(nil, uint16(p)), b...), now)
}

// L2TP notes a control message, unless it is a Hello.
func (h *Log) L2TP(sent bool, m *wirel2tp.Message, now time.Time) {
	if m.Type == wirel2tp.Hello {
		return
	}
	b := binary.BigEndian.AppendUint16(nil, uint16(m.Type))
	if m.Has(wirel2tp.ResultCodeAVP) {
		r := m.Result()
		b = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, r.Code), r.Error)
		b = append(b, r.Text...)
	}
	h.add(eventL2TP, sent, b, now)
}

// Message is one of the last control messages.
type Message struct {
	At   time.Time `json:"at"`
	Sent bool      `json:"sent"` // by this router
	Text string    `json:"text"`
}

// Messages gives them, the oldest first.
func (h *Log) Messages() []Message {
	events := h.events()
	list := make([]Message, len(events))
	at := h.last // times are known from the newest back: what was before the oldest is not
	for i := len(events) - 1; i >= 0; i-- {
		e := events[i]
		m := Message{At: time.UnixMicro(at), Sent: e.kind&eventSent != 0}
		if e.kind&^(eventSent|eventCut) == eventL2TP {
			m.Text = l2tpText(e.b)
		} else {
			m.Text = pppText(wireppp.Protocol(binary.BigEndian.Uint16(e.b)), e.b[2:], e.kind&eventCut != 0)
		}
		list[i] = m
		at -= e.since
	}
	return list
}

func l2tpText(b []byte) string {
	kind := wirel2tp.MessageType(binary.BigEndian.Uint16(b))
	s := "L2TP " + kind.String()
	if len(b) >= 6 {
		r := wirel2tp.Result{Code: binary.BigEndian.Uint16(b[2:]), Error: binary.BigEndian.Uint16(b[4:]), Text: wirel2tp.Printable(b[6:])}
		s += ", " + r.Words(kind)
	}
	return s
}

func pppText(p wireppp.Protocol, b []byte, cut bool) string {
	if len(b) == 0 {
		return p.String()
	}
	switch p {
	case wireppp.IPv6:
		return ipv6Text(b)
	case wireppp.PAP, wireppp.CHAP:
		return p.String() + " " + authCode(p, wireppp.Code(b[0])) + identifier(b)
	}
	s := p.String() + " " + wireppp.Code(b[0]).String() + identifier(b)
	code := wireppp.Code(b[0])
	if code < wireppp.ConfigureRequest || code > wireppp.ConfigureReject || len(b) < 4 {
		return s
	}
	return s + optionsText(p, b[4:], cut)
}

func identifier(b []byte) string {
	if len(b) < 2 {
		return ""
	}
	return fmt.Sprintf(" %d", b[1])
}

func authCode(p wireppp.Protocol, c wireppp.Code) string {
	names := map[wireppp.Protocol][]string{
		wireppp.PAP: {"", "Authenticate-Request", "Authenticate-Ack", "Authenticate-Nak"}, wireppp.CHAP: {"", "Challenge", "Response", "Success", "Failure"},
	}[p]
	if int(c) < len(names) && c > 0 {
		return names[c]
	}
	return fmt.Sprintf("code %d", c)
}

// optionsText reads as many options as were kept.
func optionsText(p wireppp.Protocol, b []byte, cut bool) string {
	var words []string
	for len(b) >= 2 && int(b[1]) >= 2 && int(b[1]) <= len(b) {
		words = append(words, optionText(p, wireppp.Option{Type: b[0], Data: b[2:b[1]]}))
		b = b[b[1]:]
	}
	if cut {
		words = append(words, "...")
	}
	if len(words) == 0 {
		return ""
	}
	return ": " + strings.Join(words, ", ")
}

func optionText(p wireppp.Protocol, o wireppp.Option) string {
	a, ok := netip.AddrFromSlice(o.Data)
	is4 := ok && a.Is4()
	switch {
	case p == wireppp.LCP && o.Type == wireppp.OptMRU && len(o.Data) == 2:
		return fmt.Sprintf("MRU %d", binary.BigEndian.Uint16(o.Data))
	case p == wireppp.LCP && o.Type == wireppp.OptAuth:
		if m := ppp.MethodOf(o.Data); m != "" {
			return "authentication " + string(m)
		}
		return fmt.Sprintf("authentication %x", o.Data)
	case p == wireppp.LCP && o.Type == wireppp.OptMagic:
		return fmt.Sprintf("magic %x", o.Data)
	case p == wireppp.LCP && o.Type == wireppp.OptACCM:
		return fmt.Sprintf("ACCM %x", o.Data)
	case p == wireppp.LCP && o.Type == wireppp.OptPFC:
		return "PFC"
	case p == wireppp.LCP && o.Type == wireppp.OptACFC:
		return "ACFC"
	case p == wireppp.IPCP && o.Type == wireppp.OptAddress && is4:
		return "address " + a.String()
	case p == wireppp.IPCP && (o.Type == wireppp.OptPrimaryDNS || o.Type == wireppp.OptSecondaryDNS) && is4:
		return "name server " + a.String()
	case p == wireppp.IPV6CP && o.Type == wireppp.OptInterfaceID && len(o.Data) == 8:
		return fmt.Sprintf("interface id %x", o.Data)
	}
	return fmt.Sprintf("option %d", o.Type)
}

// ipv6Text names neighbour discovery and DHCPv6: the next header, and what
// stands at its beginning.
func ipv6Text(b []byte) string {
	switch {
	case b[0] == ipv6.ICMPv6 && len(b) > 1:
		names := map[byte]string{128: "echo request", 129: "echo reply", 133: "router solicitation", 134: "router advertisement", 135: "neighbour solicitation", 136: "neighbour advertisement"}
		if n, ok := names[b[1]]; ok {
			return "ICMPv6 " + n
		}
		return fmt.Sprintf("ICMPv6 type %d", b[1])
	case b[0] == ipv6.UDP && len(b) > 9:
		from, to := binary.BigEndian.Uint16(b[1:]), binary.BigEndian.Uint16(b[3:])
		if from == dhcp6.ServerPort || to == dhcp6.ServerPort {
			return "DHCPv6 " + dhcp6.Type(b[9]).String()
		}
		return fmt.Sprintf("UDP %d > %d", from, to)
	}
	return fmt.Sprintf("IPv6 next header %d", b[0])
}
