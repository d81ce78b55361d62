package offload

import (
	"weft/internal/state"
)

// Policy is the part of the ruleset that flows must not bypass.
type Policy struct {
	Unknown bool // it is not known yet
	Blocks  []Block
	Zones   []uint16 // zones of connection tracking that rules put packets in
	Local   bool     // rules look at which addresses are the router's own (fib)

	Timeouts bool // rules give connections times of their own (ct timeout)

	Tracked4, Tracked6 bool // rules make the kernel track connections of IPv4, of IPv6
}

// Block is a rule that may decide differently on packets of one connection: flows that
// it may match stay with the stack.
type Block struct {
	Rule     string `json:"rule"` // where it is
	Why      string `json:"why"`
	IPv4     bool   `json:"ipv4"`
	IPv6     bool   `json:"ipv6"`
	Protocol uint8  `json:"protocol,omitempty"` // 0: any
}

// WhyUnknown is the reason while the ruleset is read.
const WhyUnknown Why = "the ruleset is being looked at"

func (p Policy) refuses(t state.FlowTuple) Why {
	if p.Unknown {
		return WhyUnknown
	}
	for _, b := range p.Blocks {
		if b.applies(t) {
			return Why(b.Rule + perPacket + b.Why)
		}
	}
	return ""
}

func (b Block) applies(t state.FlowTuple) bool {
	return (b.IPv4 && t.Is4() || b.IPv6 && !t.Is4()) && (b.Protocol == 0 || b.Protocol == t.Protocol)
}

// String describes the flows that stay with the stack, and the reason.
func (b Block) String() string {
	of := "all flows"
	if b.Protocol != 0 {
		of = "flows of " + state.ProtocolName(b.Protocol)
	}
	return b.Rule + " looks at each packet (" + b.Why + "): " + of + " that it may apply to stay with the stack"
}
