package trace

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"

	"github.com/gopacket/gopacket/layers"

	"weft/internal/state"
	"weft/wire/l2tp"
	"weft/wire/ppp"
)

// subscribers says whose session a packet of L2TP belongs to: on its way in it
// carries the numbers that this router has given, on its way out the peer's.
type subscribers struct {
	in, out map[[2]uint16]string
	own     map[[2]uint16]string      // the addresses that a session may send from
	peers   map[uint16]netip.AddrPort // by tunnel
}

func subscribersOf(t state.LNSTables, logins map[uint16]string) subscribers {
	s := subscribers{map[[2]uint16]string{}, map[[2]uint16]string{}, map[[2]uint16]string{}, map[uint16]netip.AddrPort{}}
	remote := map[uint16]uint16{}
	for _, x := range t.Tunnels {
		remote[x.Local], s.peers[x.Local] = x.Remote, x.Peer
	}
	for _, x := range t.Sessions {
		name := fmt.Sprintf("session %d", x.Local)
		if login := logins[x.Local]; login != "" {
			name += " of " + login
		} else if login := logins[x.SwitchedTo]; login != "" && x.SwitchedTo != 0 {
			name += " to the server of " + login
		}
		s.in[[2]uint16{x.Tunnel, x.Local}], s.own[[2]uint16{x.Tunnel, x.Local}] = name, ownWords(x)
		s.out[[2]uint16{remote[x.Tunnel], x.Remote}] = name
	}
	return s
}

// ownWords lists what a session may send from.
func ownWords(x state.L2TPSession) string {
	var words []string
	for _, a := range []netip.Addr{x.IPv4, x.IPv6} {
		if a.IsValid() {
			words = append(words, a.String())
		}
	}
	for _, p := range x.Prefixes {
		words = append(words, p.String())
	}
	return strings.Join(words, " ")
}

// note says more of what became of a packet with L2TP than a program knows, or what
// the daemon would do, which is not here; empty: nothing.
func (s subscribers) note(raw bool, packet []byte, reason string) string {
	if reason == state.SlowSubscriber.String() {
		return "the daemon's, which is not here: it sends it in pieces, or answers that it is too large"
	}
	u, ok := packetOf(raw, packet).Layer(layers.LayerTypeUDP).(*layers.UDP)
	if !ok || u.DstPort != l2tp.Port && u.SrcPort != l2tp.Port {
		return ""
	}
	h, _, err := l2tp.Parse(u.Payload)
	if err != nil {
		return ""
	}
	ids := [2]uint16{h.Tunnel, h.Session}
	peer, tunnel := s.peers[h.Tunnel]
	own, session := s.own[ids]
	switch {
	case reason == state.DropSpoofed.String() && own != "":
		return "the session may send from " + own
	case reason == state.DropL2tpPeer.String() && tunnel:
		return fmt.Sprintf("tunnel %d is with %s", h.Tunnel, peer)
	case u.DstPort != l2tp.Port || !strings.HasPrefix(reason, "pass-"):
		return ""
	case h.Control:
		return "a control message: at an address of an [lns.NAME] it is the daemon's, which is not here"
	case !tunnel:
		return fmt.Sprintf("there is no tunnel %d among the sessions that this is explained with", h.Tunnel)
	case !session:
		return fmt.Sprintf("tunnel %d has no session %d among those that this is explained with", h.Tunnel, h.Session)
	}
	return ""
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
		return ids + ", PPP, inside: " + cmp.Or(layersOf(true, inner, subscribers{}), protocol.String()+" that cannot be read")
	}
	return ids + ", PPP " + protocol.String()
}
