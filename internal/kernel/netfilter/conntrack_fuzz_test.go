package netfilter

import (
	"errors"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"weft/internal/kernel/nlconn"
	"weft/internal/state"
)

// FuzzConnection gives bytes to the reader of connections: it never panics, and
// a tuple that it reads is read again as it is from what weft writes of it.
func FuzzConnection(f *testing.F) {
	tcp := state.FlowTuple{
		Src: netip.MustParseAddr("10.0.0.2").As16(), Dst: netip.MustParseAddr("203.0.113.80").As16(),
		SrcPort: 40000, DstPort: 443, Protocol: state.ProtocolTCP,
	}
	echo := state.FlowTuple{
		Src: netip.MustParseAddr("2001:db8::2").As16(), Dst: netip.MustParseAddr("2001:db8::80").As16(),
		SrcPort: 7, DstPort: 128, Protocol: state.ProtocolICMPv6,
	}
	whole := slices.Concat(netfilterHead(tcp), tupleAttribute(ctaTupleOrig, tcp), tupleAttribute(ctaTupleReply, tcp.Back()),
		nlconn.Attribute(ctaStatus, nlconn.Put32(0x18e)), nlconn.Attribute(ctaTimeout, nlconn.Put32(600)), nlconn.Attribute(ctaMark, nlconn.Put32(1)), nlconn.Attribute(ctaID, nlconn.Put32(77)), nlconn.Attribute(ctaZone, nlconn.Put16(3)),
		nlconn.Nested(ctaProtoInfo, nlconn.Nested(ctaProtoInfoTCP, nlconn.Attribute(ctaTCPState, []byte{3}), nlconn.Attribute(ctaTCPFlagsOrig, []byte{8, 0}), nlconn.Attribute(ctaTCPFlagsBack, []byte{8}))), nlconn.Attribute(ctaSeqOrig, nil))
	f.Add(whole)
	f.Add(slices.Concat(netfilterHead(echo), tupleAttribute(ctaTupleOrig, echo), nlconn.Nested(ctaHelp, nlconn.Attribute(1, []byte("ftp\x00")))))
	f.Add(whole[:len(whole)-7])
	f.Add([]byte{unix.AF_INET, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := parseConnection(b)
		if (err != nil) != (len(b) < sizeofNfgenmsg) || err != nil && !errors.Is(err, nlconn.ErrShort) {
			t.Fatalf("%d bytes: %v", len(b), err)
		}
		for _, tuple := range []state.FlowTuple{c.Orig, c.Reply} {
			if !plain(tuple) {
				continue
			}
			again, err := parseConnection(slices.Concat(netfilterHead(tuple), tupleAttribute(ctaTupleOrig, tuple)))
			if err != nil || again.Orig != tuple {
				t.Errorf("%+v is written and read as %+v (%v)", tuple, again.Orig, err)
			}
		}
	})
}

// plain reports whether a tuple can be written: both addresses are of one family,
// and the type of an echo is a byte.
func plain(t state.FlowTuple) bool {
	echo := t.Protocol == state.ProtocolICMP || t.Protocol == state.ProtocolICMPv6
	return netip.AddrFrom16(t.Src).Is4In6() == netip.AddrFrom16(t.Dst).Is4In6() && (!echo || t.DstPort < 256)
}
