package netfilter

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"weft/internal/kernel/nlconn"
	"weft/internal/mutator"
	"weft/internal/state"
)

// TestMutatedRefusals is what the kernel reports of packets that the ruleset refuses: it
// holds their headers.
func TestMutatedRefusals(t *testing.T) {
	mutator.Run(t, mutator.Parser{Name: "refusals", Seeds: recorded(t), New: func(*rand.Rand) mutator.Machine {
		r := newRefusals()
		return mutator.Machine{Receive: func(b []byte) { r.take(b, func(state.RefusedPacket) {}) }}
	}})
}

// TestMutatedConnections is what the kernel reports of connections.
func TestMutatedConnections(t *testing.T) {
	tcp := state.FlowTuple{
		Src: netip.MustParseAddr("10.0.0.2").As16(), Dst: netip.MustParseAddr("203.0.113.80").As16(), SrcPort: 40000, DstPort: 443, Protocol: state.ProtocolTCP,
	}
	echo := state.FlowTuple{
		Src: netip.MustParseAddr("2001:db8::2").As16(), Dst: netip.MustParseAddr("2001:db8::80").As16(), SrcPort: 7, DstPort: 128, Protocol: state.ProtocolICMPv6,
	}
	seeds := [][]byte{
		slices.Concat(netfilterHead(tcp), tupleAttribute(ctaTupleOrig, tcp), tupleAttribute(ctaTupleReply, tcp.Back()), nlconn.Attribute(ctaStatus, nlconn.Put32(0x18e)),
			nlconn.Nested(ctaProtoInfo, nlconn.Nested(ctaProtoInfoTCP, nlconn.Attribute(ctaTCPState, []byte{3})))),
		slices.Concat(netfilterHead(echo), tupleAttribute(ctaTupleOrig, echo), nlconn.Nested(ctaHelp, nlconn.Attribute(1, []byte("ftp\x00")))),
	}
	mutator.Run(t, mutator.Parser{Name: "connections", Seeds: seeds, New: func(*rand.Rand) mutator.Machine {
		return mutator.Machine{Receive: func(b []byte) { _, _ = parseConnection(b) }}
	}})
}
