package state

import "net/netip"

// RefusedPacket is one that the ruleset dropped, which said so itself: it
// belonged to no connection.
type RefusedPacket struct {
	FlowKey            // as it arrived
	Opens   bool       // of TCP: it would have begun a connection
	To      netip.Addr // where it was to go after NAT, if it came so far
	Family  uint8      // of the chain that dropped it (NFPROTO_*)
	Table   string
	Chain   string
	Rule    uint64 // handle; 0: the chain's policy
}

// RefusalTrace is weft's own table of nftables. It has the kernel trace some of
// the packets that arrive on devices and belong to no connection, so that the
// ruleset's verdict on them is told.
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
