package trace

import (
	"fmt"

	"github.com/gopacket/gopacket/layers"

	"weft/internal/state"
	"weft/wire/l2tp"
	"weft/wire/ppp"
)

// subscribers says whose session a packet of L2TP belongs to: on its way in it
// carries the numbers that this router has given, on its way out the peer's.
type subscribers struct{ in, out map[[2]uint16]string }

func subscribersOf(t state.AccessTables, logins map[uint16]string) subscribers {
	s := subscribers{map[[2]uint16]string{}, map[[2]uint16]string{}}
	remote := map[uint16]uint16{}
	for _, x := range t.Tunnels {
		remote[x.Local] = x.Remote
	}
	for _, x := range t.Sessions {
		name := fmt.Sprintf("session %d", x.Local)
		if login := logins[x.Local]; login != "" {
			name += " of " + login
		} else if login := logins[x.Onward]; login != "" && x.Onward != 0 {
			name += " to the server of " + login
		}
		s.in[[2]uint16{x.Tunnel, x.Local}] = name
		s.out[[2]uint16{remote[x.Tunnel], x.Remote}] = name
	}
	return s
}

// describe says in one line what a datagram of L2TP is; empty: it is none.
func (s subscribers) describe(u *layers.UDP) string {
	if u.SrcPort != l2tp.Port && u.DstPort != l2tp.Port {
		return ""
	}
	h, rest, err := l2tp.Parse(u.Payload)
	if err != nil {
		return ""
	}
	ids := fmt.Sprintf("L2TP tunnel %d session %d", h.Tunnel, h.Session)
	name, known := s.in[[2]uint16{h.Tunnel, h.Session}]
	if out, ok := s.out[[2]uint16{h.Tunnel, h.Session}]; ok && (!known || u.SrcPort == l2tp.Port && u.DstPort != l2tp.Port) {
		name = out
	}
	if name != "" {
		ids += " (" + name + ")"
	}
	if h.Control {
		if len(rest) == 0 {
			return ids + ", acknowledgement"
		}
		kind, _, err := l2tp.Peek(rest)
		if err != nil {
			return ids + ", a control message that cannot be read"
		}
		return ids + ", " + kind.String()
	}
	protocol, inner, err := ppp.ParseFrame(rest)
	switch {
	case err != nil:
		return ids + ", PPP that cannot be read"
	case protocol == ppp.IPv4 || protocol == ppp.IPv6:
		return ids + ", PPP, inside: " + layersOf(true, inner, subscribers{})
	}
	return ids + ", PPP " + protocol.String()
}
