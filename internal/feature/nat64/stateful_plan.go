package nat64

import (
	"net/netip"

	"weft/internal/config"
	"weft/internal/state"
)

// Tables returns how large the tables of bindings and sessions must be for all
// stateful translators of f together, which share them.
func Tables(f *config.File) state.Tables {
	var t state.Tables
	for _, name := range f.Names("nat64") {
		if c := From(f, name); c.Mode == StatefulMode {
			t.Bindings += c.Bindings
			t.Sessions += c.Sessions
		}
	}
	return t
}

// pools returns the prefixes of the pools.
func (c *Config) pools() []netip.Prefix {
	if c.Mode != StatefulMode {
		return nil
	}
	var list []netip.Prefix
	for _, p := range c.Pools {
		list = append(list, p.IPv4)
	}
	return list
}

// fairShare is the part of the ports and sessions that one subscriber gets by default: so
// three others get as much while one takes all that it can (decisions/0037).
const fairShare = 4

// perSubscriber returns the limits of one subscriber; 0: none. A fixed port block is a limit
// of ports by itself.
func (c *Config) perSubscriber() (ports, sessions int) {
	ports, sessions = c.PortsPerSubscriber, c.SessionsPerSubscriber
	if !c.FairShare {
		return ports, sessions
	}
	if ports == 0 && c.PortBlock == 0 {
		there := 0 // of one protocol: a subscriber may use one alone
		for _, p := range c.Pools {
			if low, high, ok := p.ports(); ok && p.IPv4.IsValid() {
				there += (int(high) - int(low) + 1) << (32 - p.IPv4.Bits())
			}
		}
		ports = max(min(c.Bindings, there)/fairShare, 1)
	}
	if sessions == 0 {
		sessions = max(c.Sessions/fairShare, 1)
	}
	return ports, sessions
}

// binds returns what a stateful translator binds by, and its static bindings.
func (c *Config) binds(id int, shared bool) []state.Object {
	if c.Mode != StatefulMode {
		return nil
	}
	ports, sessions := c.perSubscriber()
	b := state.Allocator{
		ID:  id,
		UDP: c.UDPTimeout, ICMP: c.ICMPTimeout, Established: c.TCPEstablishedTimeout, Transitory: c.TCPTransitoryTimeout,
		PortsMax: ports, SessionsMax: sessions, SubscriberBits: c.SubscriberPrefixLen,
		Block: c.PortBlock, Subscribers: c.Subscribers, Statics: len(c.Static) > 0, Shared: shared,
	}
	b.Events = c.Logs()
	switch c.Filtering {
	case FilterAddress:
		b.Filtering = state.FilterAddress
	case FilterPort:
		b.Filtering = state.FilterPort
	}
	for i, p := range c.Pools {
		low, high, _ := p.ports()
		b.Pools[i] = state.Pool{Prefix: p.IPv4, Low: low, High: high}
	}
	list := []state.Object{b}
	for _, s := range c.Static {
		list = append(list, state.StaticBinding{Translator: id, Protocol: s.Protocol.Number(), IPv6: s.IPv6, IPv4: s.IPv4})
	}
	return list
}
