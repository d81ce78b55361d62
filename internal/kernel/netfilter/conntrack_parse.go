package netfilter

import (
	"encoding/binary"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"weft/internal/kernel/nlconn"
	"weft/internal/state"
)

// Messages and attributes of connection tracking, as far as weft reads and
// writes them (linux/netfilter/nfnetlink.h, nfnetlink_conntrack.h).
const (
	subsystemConntrack = 1 << 8 // NFNL_SUBSYS_CTNETLINK in a message's type
	conntrackNew       = subsystemConntrack + 0
	conntrackGet       = subsystemConntrack + 1
	conntrackDelete    = subsystemConntrack + 2

	groupConntrackDestroy = 3 // NFNLGRP_CONNTRACK_DESTROY
	groupNFTables         = 7 // NFNLGRP_NFTABLES

	ctaTupleOrig  = 1
	ctaTupleReply = 2
	ctaStatus     = 3
	ctaProtoInfo  = 4
	ctaHelp       = 5
	ctaTimeout    = 7
	ctaMark       = 8
	ctaID         = 12
	ctaSeqOrig    = 15
	ctaSeqReply   = 16
	ctaZone       = 18
	ctaSynproxy   = 24

	ctaTupleIP    = 1
	ctaTupleProto = 2

	ctaProtoInfoTCP = 1
	ctaTCPState     = 1
	ctaTCPFlagsOrig = 4
	ctaTCPFlagsBack = 5

	tcpLiberal = 0x08 // IP_CT_TCP_FLAG_BE_LIBERAL
)

// sizeofNfgenmsg is family, version and a resource id.
const sizeofNfgenmsg = 4

// parseConnection reads the body of a message about a connection.
func parseConnection(b []byte) (state.Connection, error) {
	var c state.Connection
	if len(b) < sizeofNfgenmsg {
		return c, nlconn.ErrShort
	}
	for kind, value := range nlconn.Attributes(b[sizeofNfgenmsg:]) {
		switch kind {
		case ctaTupleOrig:
			c.Orig = parseTuple(value)
		case ctaTupleReply:
			c.Reply = parseTuple(value)
		case ctaStatus:
			c.Status = be32(value)
		case ctaTimeout:
			c.Timeout = time.Duration(be32(value)) * time.Second
		case ctaMark:
			c.Mark = be32(value)
		case ctaID:
			c.ID = be32(value)
		case ctaZone:
			c.Zone = be16(value)
		case ctaHelp:
			c.Special = "a helper of connection tracking reads it"
		case ctaSynproxy:
			c.Special = "a SYN proxy stands in its way"
		case ctaSeqOrig, ctaSeqReply:
			if c.Special == "" {
				c.Special = "its sequence numbers are changed"
			}
		case ctaProtoInfo:
			c.TCP, c.Liberal = tcpInfo(value)
		}
	}
	return c, nil
}

// tcpInfo returns the state of TCP, and whether both sides are liberal.
func tcpInfo(b []byte) (tcpState uint8, liberal bool) {
	var both uint8 // flags that both have
	for kind, tcp := range nlconn.Attributes(b) {
		if kind != ctaProtoInfoTCP {
			continue
		}
		var flags [2]uint8
		for kind, value := range nlconn.Attributes(tcp) {
			switch {
			case len(value) == 0:
			case kind == ctaTCPState:
				tcpState = value[0]
			case kind == ctaTCPFlagsOrig, kind == ctaTCPFlagsBack:
				flags[kind-ctaTCPFlagsOrig] = value[0] // struct nf_ct_tcp_flags: then a mask
			}
		}
		both = flags[0] & flags[1]
	}
	return tcpState, both&tcpLiberal != 0
}

func parseTuple(b []byte) state.FlowTuple {
	var t state.FlowTuple
	for kind, value := range nlconn.Attributes(b) {
		switch kind {
		case ctaTupleIP:
			for kind, a := range nlconn.Attributes(value) {
				as := netip.Addr{}
				if as = nlconn.Address(a); !as.IsValid() {
					continue
				}
				if kind&1 == 1 { // CTA_IP_V4_SRC 1, V4_DST 2, V6_SRC 3, V6_DST 4
					t.Src = as.As16()
				} else {
					t.Dst = as.As16()
				}
			}
		case ctaTupleProto:
			for kind, v := range nlconn.Attributes(value) {
				switch kind {
				case 1:
					if len(v) > 0 {
						t.Protocol = v[0]
					}
				case 2, 4, 7: // source port; identifier of ICMP, of ICMPv6
					t.SrcPort = be16(v)
				case 3:
					t.DstPort = be16(v)
				case 5, 8: // type
					if len(v) > 0 {
						t.DstPort = uint16(v[0])
					}
				}
			}
		}
	}
	return t
}

// tupleAttribute writes a tuple, nested as the kernel wants it.
func tupleAttribute(kind uint16, t state.FlowTuple) []byte {
	var ip, proto []byte
	if t.Is4() {
		ip = append(nlconn.Attribute(1, t.Src[12:]), nlconn.Attribute(2, t.Dst[12:])...)
	} else {
		ip = append(nlconn.Attribute(3, t.Src[:]), nlconn.Attribute(4, t.Dst[:])...)
	}
	proto = nlconn.Attribute(1, []byte{t.Protocol})
	switch t.Protocol {
	case state.ProtocolICMP, state.ProtocolICMPv6:
		first := uint16(4)
		if t.Protocol == state.ProtocolICMPv6 {
			first = 7
		}
		proto = append(proto, nlconn.Attribute(first, nlconn.Put16(t.SrcPort))...)
		proto = append(proto, nlconn.Attribute(first+1, []byte{byte(t.DstPort)})...)
		proto = append(proto, nlconn.Attribute(first+2, []byte{0})...)
	default:
		proto = append(proto, nlconn.Attribute(2, nlconn.Put16(t.SrcPort))...)
		proto = append(proto, nlconn.Attribute(3, nlconn.Put16(t.DstPort))...)
	}
	return nlconn.Nested(kind, nlconn.Nested(ctaTupleIP, ip), nlconn.Nested(ctaTupleProto, proto))
}

// netfilterHead is the fixed part of a request about a tuple's family.
func netfilterHead(t state.FlowTuple) []byte {
	family := byte(unix.AF_INET6)
	if t.Is4() {
		family = unix.AF_INET
	}
	return []byte{family, 0, 0, 0}
}

func be16(b []byte) uint16 {
	if len(b) < 2 {
		return 0
	}
	return binary.BigEndian.Uint16(b)
}

func be32(b []byte) uint32 {
	if len(b) < 4 {
		return 0
	}
	return binary.BigEndian.Uint32(b)
}
