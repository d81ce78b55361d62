package rtnetlink

import (
	"net/netip"

	"golang.org/x/sys/unix"

	"weft/internal/kernel/nlconn"
	"weft/internal/state"
)

// From linux/rtnetlink.h, as far as golang.org/x/sys does not have it.
const (
	rtaNhID = 30 // RTA_NH_ID
	rtaxMTU = 2  // RTAX_MTU
)

// ParseRoute parses the body of an RTM_NEWROUTE or RTM_DELROUTE (struct rtmsg and
// attributes) into r, whose Hops it reuses. Unknown attributes that would change the
// path of packets set r.Malformed.
func ParseRoute(b []byte, r *state.KernelRoute) error {
	if len(b) < unix.SizeofRtMsg {
		return nlconn.ErrShort
	}
	family, bits := b[0], int(b[1])
	*r = state.KernelRoute{
		Table: uint32(b[4]), Protocol: b[5], Type: state.RouteType(b[7]), TOS: b[3],
		SourceOf: b[2] != 0, Hops: r.Hops[:0],
	}
	flags := nlconn.U32(b[8:])
	r.Cached = flags&unix.RTM_F_CLONED != 0
	var dst netip.Addr
	switch family {
	case unix.AF_INET:
		dst = netip.IPv4Unspecified()
	case unix.AF_INET6:
		dst, r.TOS = netip.IPv6Unspecified(), 0
	default:
		return errFamily
	}
	width := dst.BitLen()
	own := state.KernelHop{Weight: 1}
	several := false
	for t, v := range nlconn.Attributes(b[unix.SizeofRtMsg:]) {
		switch t {
		case unix.RTA_DST:
			dst = nlconn.Address(v)
		case unix.RTA_TABLE:
			r.Table = nlconn.U32(v)
		case unix.RTA_PRIORITY:
			r.Metric = nlconn.U32(v)
		case rtaNhID:
			r.Object = nlconn.U32(v)
		case unix.RTA_METRICS:
			r.MTU = routeMTU(v)
		case unix.RTA_CACHEINFO:
			// struct rta_cacheinfo: rta_expires is its third number
			r.Expires = len(v) >= 12 && nlconn.U32(v[8:]) != 0
		case unix.RTA_EXPIRES:
			r.Expires = true
		case unix.RTA_MULTIPATH:
			several = true
			r.Malformed = !parseHops(v, r) || r.Malformed
		default:
			r.Malformed = !parseHop(t, v, &own) || r.Malformed
		}
	}
	if !dst.IsValid() || dst.BitLen() != width || bits > width {
		return errPrefix
	}
	r.Prefix = netip.PrefixFrom(dst, bits).Masked()
	if r.Type == state.RouteUnicast && !several {
		r.Hops = append(r.Hops, own)
	}
	return nil
}

// parseHop reads an attribute that a hop may have; false if its value makes no
// sense.
func parseHop(t uint16, v []byte, h *state.KernelHop) bool {
	switch t {
	case unix.RTA_OIF:
		h.Device = int(nlconn.U32(v))
	case unix.RTA_GATEWAY:
		h.Gateway = nlconn.Address(v)
		return h.Gateway.IsValid()
	case unix.RTA_VIA:
		// struct rtvia: a family and an address of it (a gateway of IPv6 for IPv4)
		if len(v) < 2 {
			return false
		}
		h.Gateway = nlconn.Address(v[2:])
		return h.Gateway.IsValid()
	case unix.RTA_ENCAP, unix.RTA_ENCAP_TYPE:
		h.Encap = true
	}
	return true
}

// parseHops reads an RTA_MULTIPATH: struct rtnexthop and attributes, repeated.
func parseHops(b []byte, r *state.KernelRoute) bool {
	good := true
	for len(b) >= unix.SizeofRtNexthop {
		n := int(nlconn.U16(b))
		if n < unix.SizeofRtNexthop || n > len(b) {
			return false
		}
		h := state.KernelHop{Weight: int(b[3]) + 1, Device: int(nlconn.U32(b[4:]))}
		for t, v := range nlconn.Attributes(b[unix.SizeofRtNexthop:n]) {
			good = parseHop(t, v, &h) && good
		}
		r.Hops = append(r.Hops, h)
		b = b[min(len(b), (n+3)&^3):]
	}
	return good
}

func routeMTU(metrics []byte) uint32 {
	for t, v := range nlconn.Attributes(metrics) {
		if t == rtaxMTU {
			return nlconn.U32(v)
		}
	}
	return 0
}

// routeChange decodes, from the flags of an RTM_NEWROUTE, the route's position among
// those of the same metric (net/ipv4/fib_trie.c, fib_table_insert).
func routeChange(flags uint16) state.RouteChange {
	switch {
	case flags&unix.NLM_F_REPLACE != 0:
		return state.RouteReplaced
	case flags&unix.NLM_F_APPEND != 0:
		return state.RouteAppended
	}
	return state.RouteAdded
}
