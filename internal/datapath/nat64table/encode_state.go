package nat64table

import (
	"math/bits"
	"net/netip"
	"time"

	"weft/internal/datapath"
	"weft/internal/state"
)

// Short names for the types of stateful translation.
type (
	bib6Key       = datapath.IngressTCNat64Bib6Key
	bib4Key       = datapath.IngressTCNat64Bib4Key
	binding       = datapath.IngressTCNat64Binding
	sessionKey    = datapath.IngressTCNat64SessionKey
	sessionValue  = datapath.IngressTCNat64Session
	allocator     = datapath.IngressTCNat64Stateful
	subscriberKey = datapath.IngressTCNat64SubscriberKey
	subscriber    = datapath.IngressTCNat64Subscriber
	usage         = datapath.IngressTCNat64Usage
	sweepState    = datapath.IngressTCNat64SweepState
	event         = datapath.IngressTCNat64Event
)

// ticks rounds up: no object may expire before its configured time.
func ticks(d time.Duration) uint32 { return uint32((d + datapath.Tick - 1) / datapath.Tick) }

// duration is the reverse of ticks for whole seconds.
func duration(t uint32) time.Duration {
	return (time.Duration(t) * datapath.Tick).Truncate(time.Second)
}

func encodeAllocator(b state.Allocator) allocator {
	v := allocator{
		PortsMax: uint32(b.PortsMax), SessionsMax: uint32(b.SessionsMax),
		SubscriberBits: uint8(b.SubscriberBits), Filtering: uint8(b.Filtering), HasStatics: datapath.Bit(b.Statics), Shared: datapath.Bit(b.Shared),
		Events: datapath.Bit(b.Events),
	}
	v.Timers = [nat64Timers]uint32{
		nat64TimerUDP: ticks(b.UDP), nat64TimerICMP: ticks(b.ICMP),
		nat64TimerEst: ticks(b.Established), nat64TimerTrans: ticks(b.Transitory),
	}
	if b.Block != 0 {
		v.Block = uint32(b.Block)
		v.Subscribers.U8 = b.Subscribers.Addr().As16()
		v.SubscribersBits = uint8(b.Subscribers.Bits())
	}
	// the same on every router of the same file, so that subscribers keep
	// their address when another takes over
	v.Secret = datapath.HashGolden * uint64(b.ID+1)
	for i, p := range b.Pools {
		if !p.Prefix.IsValid() {
			break
		}
		v.Pools++
		v.Pool[i].Base, v.Pool[i].Count = datapath.Host32(p.Prefix.Masked().Addr()), 1<<(32-p.Prefix.Bits())
		v.Pool[i].Low, v.Pool[i].High = p.Low, p.High
		v.Addresses += v.Pool[i].Count
	}
	return v
}

func decodeAllocator(id int, v allocator) state.Allocator {
	b := state.Allocator{
		ID: id, PortsMax: int(v.PortsMax), SessionsMax: int(v.SessionsMax),
		SubscriberBits: int(v.SubscriberBits), Filtering: state.Filtering(v.Filtering), Statics: v.HasStatics != 0, Shared: v.Shared != 0, Events: v.Events != 0,
		UDP: duration(v.Timers[nat64TimerUDP]), ICMP: duration(v.Timers[nat64TimerICMP]),
		Established: duration(v.Timers[nat64TimerEst]), Transitory: duration(v.Timers[nat64TimerTrans]),
		Block: int(v.Block),
	}
	if v.Block != 0 {
		b.Subscribers = netip.PrefixFrom(netip.AddrFrom16(v.Subscribers.U8), int(v.SubscribersBits))
	}
	for i := range min(int(v.Pools), len(b.Pools)) {
		p := v.Pool[i]
		b.Pools[i] = state.Pool{Prefix: netip.PrefixFrom(datapath.AddrOfHost32(p.Base), 32-bits.TrailingZeros32(p.Count)), Low: p.Low, High: p.High}
	}
	return b
}

func encodeBib6Key(translator int, protocol uint8, a netip.AddrPort) bib6Key {
	k := bib6Key{Port: datapath.Wire16(a.Port()), Protocol: protocol, Translator: uint8(translator)}
	k.Client.U8 = a.Addr().As16()
	return k
}

func encodeBib4Key(protocol uint8, a netip.AddrPort) bib4Key {
	return bib4Key{Pool: datapath.Wire32(a.Addr()), Port: datapath.Wire16(a.Port()), Protocol: protocol}
}

func addrPort6(a [16]byte, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom16(a), datapath.Wire16(port))
}

func addrPort4(a uint32, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(datapath.Addr4(a), datapath.Wire16(port))
}

func decodeStatic(k bib6Key, v bib4Key) state.StaticBinding {
	return state.StaticBinding{
		Translator: int(k.Translator), Protocol: k.Protocol,
		IPv6: addrPort6(k.Client.U8, k.Port), IPv4: addrPort4(v.Pool, v.Port),
	}
}
