package kernel

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"weft/internal/state"
)

var (
	errFamily = errors.New("netlink message of a family that is not IP")
	errPrefix = errors.New("netlink message with a prefix that is none")
)

// parseNeighbour reads the body of an RTM_NEWNEIGH of IP (struct ndmsg).
func parseNeighbour(b []byte) (state.KernelNeighbour, error) {
	if len(b) < unix.SizeofNdMsg {
		return state.KernelNeighbour{}, errShort
	}
	n := state.KernelNeighbour{
		Device: int(int32(u32(b[4:]))), State: state.NeighbourState(u16(b[8:])), Proxy: b[10]&unix.NTF_PROXY != 0,
	}
	for t, v := range attributes(b[unix.SizeofNdMsg:]) {
		switch t {
		case unix.NDA_DST:
			n.Addr = address(v)
		case unix.NDA_LLADDR:
			if len(v) == len(n.MAC) {
				n.MAC = [6]byte(v)
			} else {
				n.State = state.NeighbourNone // not Ethernet
			}
		}
	}
	if !n.Addr.IsValid() || n.Addr.Is4() != (b[0] == unix.AF_INET) {
		return n, errFamily
	}
	return n, nil
}

// parseBridgeEntry reads the body of an RTM_NEWNEIGH of AF_BRIDGE. Entries of
// devices that are no bridge's have no Bridge.
func parseBridgeEntry(b []byte) (state.BridgeEntry, error) {
	if len(b) < unix.SizeofNdMsg {
		return state.BridgeEntry{}, errShort
	}
	e := state.BridgeEntry{Port: int(int32(u32(b[4:]))), Local: u16(b[8:])&unix.NUD_PERMANENT != 0}
	for t, v := range attributes(b[unix.SizeofNdMsg:]) {
		switch t {
		case unix.NDA_LLADDR:
			if len(v) != len(e.MAC) {
				return e, errShort
			}
			e.MAC = [6]byte(v)
		case unix.NDA_MASTER:
			e.Bridge = int(u32(v))
		case unix.NDA_VLAN:
			e.VLAN = u16(v)
		}
	}
	return e, nil
}

// hasSessions tells by its alias whether a device is that of an [access.NAME]
// or an [l2tp_client.NAME].
func hasSessions(alias string) bool {
	owner, ours := strings.CutPrefix(alias, AliasPrefix)
	return ours && (strings.HasPrefix(owner, "access.") || strings.HasPrefix(owner, "l2tp_client."))
}

// parseLink reads the body of an RTM_NEWLINK (struct ifinfomsg).
func parseLink(b []byte) (state.KernelLink, error) {
	if len(b) < unix.SizeofIfInfomsg {
		return state.KernelLink{}, errShort
	}
	flags := u32(b[8:])
	l := state.KernelLink{
		Index: int(int32(u32(b[4:]))), Ethernet: u16(b[2:]) == unix.ARPHRD_ETHER,
		Up: flags&unix.IFF_UP != 0 && flags&unix.IFF_RUNNING != 0,
	}
	lower, foreign := 0, false
	for t, v := range attributes(b[unix.SizeofIfInfomsg:]) {
		switch t {
		case unix.IFLA_IFNAME:
			l.Name = text(v)
		case unix.IFLA_ADDRESS:
			if len(v) == len(l.MAC) {
				l.MAC = [6]byte(v)
			}
		case unix.IFLA_MTU:
			l.MTU = int(u32(v))
		case unix.IFLA_MASTER:
			l.Master = int(u32(v))
		case unix.IFLA_IFALIAS:
			l.Sessions, l.Shortcut = hasSessions(text(v)), hasShortcut(text(v))
		case unix.IFLA_LINK:
			lower = int(u32(v))
		case unix.IFLA_PHYS_PORT_NAME:
			l.Port = portNumber(text(v))
		case unix.IFLA_LINK_NETNSID:
			foreign = true // the device below is in another namespace
		case unix.IFLA_LINKINFO:
			parseLinkInfo(v, &l)
		}
	}
	if (l.Kind == "vlan" || l.Kind == switchPort) && !foreign {
		l.Lower = lower
	}
	if l.Kind != switchPort {
		l.Port = 0
	}
	return l, nil
}

func parseLinkInfo(b []byte, l *state.KernelLink) {
	var data []byte
	for t, v := range attributes(b) {
		switch t {
		case unix.IFLA_INFO_KIND:
			l.Kind = text(v)
		case unix.IFLA_INFO_DATA:
			data = v
		}
	}
	for t, v := range attributes(data) {
		switch {
		case l.Kind == "vlan" && t == unix.IFLA_VLAN_ID:
			l.VLAN = u16(v)
		case l.Kind == "vlan" && t == unix.IFLA_VLAN_PROTOCOL && len(v) >= 2:
			l.VLANProto = uint16(v[0])<<8 | uint16(v[1])
		case l.Kind == "bridge" && t == unix.IFLA_BR_VLAN_FILTERING && len(v) >= 1:
			l.Filtering = v[0] != 0
		case l.Kind == "vrf" && t == unix.IFLA_VRF_TABLE:
			l.VRFTable = u32(v)
		}
	}
}

// parseObject reads the body of an RTM_NEWNEXTHOP (struct nhmsg).
func parseObject(b []byte) (state.NexthopObject, error) {
	const size = 8 // family, scope, protocol, reserved, flags
	if len(b) < size {
		return state.NexthopObject{}, errShort
	}
	o := state.NexthopObject{Hop: state.KernelHop{Weight: 1}}
	for t, v := range attributes(b[size:]) {
		switch t {
		case unix.NHA_ID:
			o.ID = u32(v)
		case unix.NHA_GROUP:
			// struct nexthop_grp: id, weight less one (its upper half later), reserved
			for ; len(v) >= 8; v = v[8:] {
				o.Group = append(o.Group, state.ObjectMember{ID: u32(v), Weight: (int(v[4]) | int(v[5])<<8) + 1})
			}
		case unix.NHA_BLACKHOLE:
			o.Blackhole = true
		case unix.NHA_OIF:
			o.Hop.Device = int(u32(v))
		case unix.NHA_GATEWAY:
			o.Hop.Gateway = address(v)
		case unix.NHA_ENCAP, unix.NHA_ENCAP_TYPE:
			o.Hop.Encap = true
		case nhaFDB:
			o.Other = true
		}
	}
	if o.ID == 0 {
		return o, errShort
	}
	return o, nil
}

const (
	nhaFDB  = 11 // NHA_FDB
	frToTbl = 1  // FR_ACT_TO_TBL
)

// parseRule reads the body of an RTM_NEWRULE (struct fib_rule_hdr).
func parseRule(b []byte) (state.KernelRule, error) {
	const size = 12 // family, dst_len, src_len, tos, table, res1, res2, action, flags
	if len(b) < size {
		return state.KernelRule{}, errShort
	}
	r := state.KernelRule{IPv6: b[0] == unix.AF_INET6, Table: uint32(b[4]), Lookup: b[7] == frToTbl}
	const invert = 2 // FIB_RULE_INVERT
	inverted := u32(b[8:])&invert != 0
	match := []string{}
	if b[3] != 0 {
		match = append(match, fmt.Sprintf("tos %#x", b[3]))
	}
	for t, v := range attributes(b[size:]) {
		switch t {
		case unix.FRA_PRIORITY:
			r.Priority = u32(v)
		case unix.FRA_TABLE:
			r.Table = u32(v)
		case unix.FRA_L3MDEV:
			r.L3MDev = len(v) > 0 && v[0] != 0
		case unix.FRA_DST:
			match = append(match, fmt.Sprintf("to %s/%d", address(v), b[1]))
		case unix.FRA_SRC:
			match = append(match, fmt.Sprintf("from %s/%d", address(v), b[2]))
		case unix.FRA_IIFNAME:
			match = append(match, "iif "+text(v))
			r.LocalOnly = r.LocalOnly || text(v) == "lo" && !inverted
		case unix.FRA_OIFNAME:
			// forwarded packets have no outgoing device before they are routed
			match = append(match, "oif "+text(v))
			r.LocalOnly = r.LocalOnly || !inverted
		case unix.FRA_FWMARK:
			match = append(match, fmt.Sprintf("fwmark %#x", u32(v)))
		case unix.FRA_SUPPRESS_PREFIXLEN:
			if n := int32(u32(v)); n >= 0 {
				match = append(match, fmt.Sprintf("suppress_prefixlength %d", n))
			}
		case unix.FRA_SUPPRESS_IFGROUP:
			if n := int32(u32(v)); n >= 0 {
				match = append(match, fmt.Sprintf("suppress_ifgroup %d", n))
			}
		case unix.FRA_FWMASK, unix.FRA_PROTOCOL, unix.FRA_PAD, unix.FRA_UNSPEC:
		default:
			match = append(match, fmt.Sprintf("attribute %d", t))
		}
	}
	r.Plain = len(match) == 0 && !inverted
	words := strings.Join(match, " ")
	if inverted {
		words = "not " + words
	}
	if words == "" {
		words = "from all"
	}
	action := fmt.Sprintf("lookup %d", r.Table)
	if r.L3MDev {
		action = "lookup [l3mdev-table]"
	} else if !r.Lookup {
		action = fmt.Sprintf("action %d", b[7])
	}
	r.Text = fmt.Sprintf("%d: %s %s", r.Priority, words, action)
	return r, nil
}
