package state

import "net/netip"

// RefusedPacket is a packet of no connection that the ruleset dropped, by the
// ruleset's own verdict.
type RefusedPacket struct {
	FlowKey            // as it arrived
	Opens   bool       // of TCP: it would have begun a connection
	To      netip.Addr // where it was to go after NAT, if it came so far
	Family  uint8      // of the chain that dropped it (NFPROTO_*)
	Table   string
	Chain   string
	Rule    uint64 // handle; 0: the chain's policy
}

// RefusalTrace is weft's own nftables table. It makes the kernel trace some of the
// packets that arrive on devices and belong to no connection, so that weft learns
// the ruleset's verdict on them.
type RefusalTrace struct {
	Devices string // names, with commas between
}

// RefusalTable is its name, in family inet.
const RefusalTable = "weft_refused"

func (r RefusalTrace) Key() string    { return "nftables table inet " + RefusalTable }
func (r RefusalTrace) Domain() Domain { return Kernel }
func (r RefusalTrace) String() string {
	return r.Key() + ": tell what is refused of packets from " + r.Devices
}
