package rtnetlink

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"weft/internal/kernel/driver"
	"weft/internal/kernel/mark"
	"weft/internal/kernel/nlconn"
	"weft/internal/state"
)

var (
	errFamily = errors.New("netlink message of a family that is not IP")
	errPrefix = errors.New("netlink message with a prefix that is none")
)

// parseNeighbour reads the body of an RTM_NEWNEIGH of IP (struct ndmsg).
func parseNeighbour(b []byte) (state.KernelNeighbour, error) {
	if len(b) < unix.SizeofNdMsg {
		return state.KernelNeighbour{}, nlconn.ErrShort
	}
	n := state.KernelNeighbour{
		Device: int(int32(nlconn.U32(b[4:]))), State: state.NeighbourState(nlconn.U16(b[8:])), Proxy: b[10]&unix.NTF_PROXY != 0,
	}
	for t, v := range nlconn.Attributes(b[unix.SizeofNdMsg:]) {
		switch t {
		case unix.NDA_DST:
			n.Addr = nlconn.Address(v)
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
		return state.BridgeEntry{}, nlconn.ErrShort
	}
	e := state.BridgeEntry{Port: int(int32(nlconn.U32(b[4:]))), Local: nlconn.U16(b[8:])&unix.NUD_PERMANENT != 0}
	for t, v := range nlconn.Attributes(b[unix.SizeofNdMsg:]) {
		switch t {
		case unix.NDA_LLADDR:
			if len(v) != len(e.MAC) {
				return e, nlconn.ErrShort
			}
			e.MAC = [6]byte(v)
		case unix.NDA_MASTER:
			e.Bridge = int(nlconn.U32(v))
		case unix.NDA_VLAN:
			e.VLAN = nlconn.U16(v)
		}
	}
	return e, nil
}

// parseLink reads the body of an RTM_NEWLINK (struct ifinfomsg).
func parseLink(b []byte) (state.KernelLink, error) {
	if len(b) < unix.SizeofIfInfomsg {
		return state.KernelLink{}, nlconn.ErrShort
	}
	flags := nlconn.U32(b[8:])
	l := state.KernelLink{
		Index: int(int32(nlconn.U32(b[4:]))), Ethernet: nlconn.U16(b[2:]) == unix.ARPHRD_ETHER,
		Up: flags&unix.IFF_UP != 0 && flags&unix.IFF_RUNNING != 0,
	}
	lower, foreign := 0, false
	for t, v := range nlconn.Attributes(b[unix.SizeofIfInfomsg:]) {
		switch t {
		case unix.IFLA_IFNAME:
			l.Name = nlconn.Text(v)
		case unix.IFLA_ADDRESS:
			if len(v) == len(l.MAC) {
				l.MAC = [6]byte(v)
			}
		case unix.IFLA_MTU:
			l.MTU = int(nlconn.U32(v))
		case unix.IFLA_MASTER:
			l.Master = int(nlconn.U32(v))
		case unix.IFLA_IFALIAS:
			l.Sessions, l.Bypass = mark.HasSessions(nlconn.Text(v)), mark.HasBypass(nlconn.Text(v))
		case unix.IFLA_LINK:
			lower = int(nlconn.U32(v))
		case unix.IFLA_PHYS_PORT_NAME:
			l.Port = driver.PortNumber(nlconn.Text(v))
		case unix.IFLA_LINK_NETNSID:
			foreign = true // the device below is in another namespace
		case unix.IFLA_LINKINFO:
			parseLinkInfo(v, &l)
		}
	}
	if (l.Kind == "vlan" || l.Kind == driver.SwitchPort) && !foreign {
		l.Lower = lower
	}
	if l.Kind != driver.SwitchPort {
		l.Port = 0
	}
	return l, nil
}

func parseLinkInfo(b []byte, l *state.KernelLink) {
	var data []byte
	for t, v := range nlconn.Attributes(b) {
		switch t {
		case unix.IFLA_INFO_KIND:
			l.Kind = nlconn.Text(v)
		case unix.IFLA_INFO_DATA:
			data = v
		}
	}
	for t, v := range nlconn.Attributes(data) {
		switch {
		case l.Kind == "vlan" && t == unix.IFLA_VLAN_ID:
			l.VLAN = nlconn.U16(v)
		case l.Kind == "vlan" && t == unix.IFLA_VLAN_PROTOCOL && len(v) >= 2:
			l.VLANProto = uint16(v[0])<<8 | uint16(v[1])
		case l.Kind == "bridge" && t == unix.IFLA_BR_VLAN_FILTERING && len(v) >= 1:
			l.Filtering = v[0] != 0
		case l.Kind == "vrf" && t == unix.IFLA_VRF_TABLE:
			l.VRFTable = nlconn.U32(v)
		}
	}
}

// parseObject reads the body of an RTM_NEWNEXTHOP (struct nhmsg).
func parseObject(b []byte) (state.NexthopObject, error) {
	const size = 8 // family, scope, protocol, reserved, flags
	if len(b) < size {
		return state.NexthopObject{}, nlconn.ErrShort
	}
	o := state.NexthopObject{Hop: state.KernelHop{Weight: 1}}
	for t, v := range nlconn.Attributes(b[size:]) {
		switch t {
		case unix.NHA_ID:
			o.ID = nlconn.U32(v)
		case unix.NHA_GROUP:
			// struct nexthop_grp: id, weight less one (its upper half later), reserved
			for ; len(v) >= 8; v = v[8:] {
				o.Group = append(o.Group, state.ObjectMember{ID: nlconn.U32(v), Weight: (int(v[4]) | int(v[5])<<8) + 1})
			}
		case unix.NHA_BLACKHOLE:
			o.Blackhole = true
		case unix.NHA_OIF:
			o.Hop.Device = int(nlconn.U32(v))
		case unix.NHA_GATEWAY:
			o.Hop.Gateway = nlconn.Address(v)
		case unix.NHA_ENCAP, unix.NHA_ENCAP_TYPE:
			o.Hop.Encap = true
		case nhaFDB:
			o.Other = true
		}
	}
	if o.ID == 0 {
		return o, nlconn.ErrShort
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
		return state.KernelRule{}, nlconn.ErrShort
	}
	r := state.KernelRule{IPv6: b[0] == unix.AF_INET6, Table: uint32(b[4]), Lookup: b[7] == frToTbl}
	const invert = 2 // FIB_RULE_INVERT
	inverted := nlconn.U32(b[8:])&invert != 0
	match := []string{}
	if b[3] != 0 {
		match = append(match, fmt.Sprintf("tos %#x", b[3]))
	}
	for t, v := range nlconn.Attributes(b[size:]) {
		switch t {
		case unix.FRA_PRIORITY:
			r.Priority = nlconn.U32(v)
		case unix.FRA_TABLE:
			r.Table = nlconn.U32(v)
		case unix.FRA_L3MDEV:
			r.L3MDev = len(v) > 0 && v[0] != 0
		case unix.FRA_DST:
			match = append(match, fmt.Sprintf("to %s/%d", nlconn.Address(v), b[1]))
		case unix.FRA_SRC:
			match = append(match, fmt.Sprintf("from %s/%d", nlconn.Address(v), b[2]))
		case unix.FRA_IIFNAME:
			match = append(match, "iif "+nlconn.Text(v))
			r.LocalOnly = r.LocalOnly || nlconn.Text(v) == "lo" && !inverted
		case unix.FRA_OIFNAME:
			// forwarded packets have no outgoing device before they are routed
			match = append(match, "oif "+nlconn.Text(v))
			r.LocalOnly = r.LocalOnly || !inverted
		case unix.FRA_FWMARK:
			match = append(match, fmt.Sprintf("fwmark %#x", nlconn.U32(v)))
		case unix.FRA_SUPPRESS_PREFIXLEN:
			if n := int32(nlconn.U32(v)); n >= 0 {
				match = append(match, fmt.Sprintf("suppress_prefixlength %d", n))
			}
		case unix.FRA_SUPPRESS_IFGROUP:
			if n := int32(nlconn.U32(v)); n >= 0 {
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
