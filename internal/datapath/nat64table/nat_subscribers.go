package nat64table

import (
	"iter"
	"net/netip"

	"weft/internal/datapath"
)

// NATSubscriber is the usage of a subscriber of a stateful translator that has
// bindings or sessions.
type NATSubscriber struct {
	Translator      int
	Prefix          netip.Addr // its length is the binder's
	Ports, Sessions int
	Refused         uint64
	Packets, Bytes  [2]uint64 // to IPv4, to IPv6; zero if they are not counted
}

// NATSubscribers iterates over them, in no order.
func (d Table) NATSubscribers() iter.Seq2[NATSubscriber, error] {
	return datapath.Entries(d.core, "nat64_subscribers", func(k subscriberKey, v subscriber) (NATSubscriber, bool) {
		return NATSubscriber{
			Translator: int(k.Translator), Prefix: netip.AddrFrom16(k.Prefix.U8),
			Ports: int(v.Word << 1 >> 33), Sessions: int(uint32(v.Word)), Refused: uint64(v.Refused),
			Packets: v.Packets, Bytes: v.Bytes,
		}, v.Word&nat64SubscriberDead == 0
	})
}
