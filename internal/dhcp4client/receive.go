package dhcp4client

import (
	"bytes"
	"net/netip"
	"slices"
	"time"

	"weft/wire/dhcp4"
)

// Receive takes the payload of a datagram that came to the client's port.
func (c *Client) Receive(b []byte, now time.Time) {
	m, err := dhcp4.Parse(b)
	if err != nil || !c.receive(m, now) {
		c.status.Ignored++
		return
	}
	c.status.Received++
}

// receive reports whether the message means something to the client.
func (c *Client) receive(m *dhcp4.Message, now time.Time) bool {
	if m.Op != dhcp4.BootReply || m.Transaction != c.transaction || m.Hardware != c.Hardware {
		return false
	}
	// a server echoes the identifier (RFC 6842), or leaves it out as older ones do
	if id := m.Options.Get(dhcp4.OptionClientID); id != nil && !bytes.Equal(id, c.clientID()) {
		return false
	}
	server := m.Options.Address(dhcp4.OptionServerID)
	if len(c.Servers) > 0 && !slices.Contains(c.Servers, server) {
		return false
	}
	switch kind, s := m.Type(), c.status.State; {
	case s == Selecting && (kind == dhcp4.Offer || kind == dhcp4.Ack && c.RapidCommit && m.Options.Has(dhcp4.OptionRapidCommit)):
		return c.take(m, server, now)
	case kind == dhcp4.Ack && (s == Requesting || s == Rebooting || s == Renewing || s == Rebinding):
		return c.acknowledged(m, server, now)
	case kind == dhcp4.Nak && (s == Requesting || s == Rebooting || s == Renewing || s == Rebinding):
		return c.refused(m, server, now)
	}
	return false
}

// take takes the first offer that makes sense.
func (c *Client) take(m *dhcp4.Message, server netip.Addr, now time.Time) bool {
	if c.prefersIPv6(m, now) {
		return true
	}
	l, ok := c.read(m, now)
	if !ok || !server.IsValid() {
		return false
	}
	if c.offered = l; m.Type() == dhcp4.Ack {
		c.given(l, now)
		return true
	}
	began := c.began
	c.begin(Requesting, now)
	c.began = began // the seconds of one exchange (RFC 2131 section 4.4.1)
	c.ask(now)
	return true
}

// prefersIPv6 reports whether the network can do without this host's IPv4; the client then
// asks again after the time that the server says (RFC 8925 section 3.2).
func (c *Client) prefersIPv6(m *dhcp4.Message, now time.Time) bool {
	seconds, ok := m.Options.Uint32(dhcp4.OptionIPv6Only)
	if !ok || !c.IPv6Only || c.lease != nil {
		return false
	}
	c.offered = nil
	c.enter(IPv6Only, now)
	c.stateUntil = now.Add(max(time.Duration(seconds)*time.Second, leastIPv6Only))
	return true
}

func (c *Client) acknowledged(m *dhcp4.Message, server netip.Addr, now time.Time) bool {
	s := c.status.State
	if s == Requesting && server != c.offered.Server {
		return false
	}
	if s == Rebooting && c.prefersIPv6(m, now) {
		return true
	}
	l, ok := c.read(m, now)
	if !ok {
		return false
	}
	if !l.Server.IsValid() && (s == Renewing || s == Rebinding) {
		l.Server = c.lease.Server
	}
	switch s {
	case Renewing, Rebinding:
		if l.Address.Addr() != c.lease.Address.Addr() {
			return false // a server extends what it is asked for, or refuses
		}
	case Requesting, Rebooting:
		if l.Address.Addr() != c.offered.Address.Addr() {
			return false
		}
	}
	c.given(l, now)
	return true
}

// given probes an address that is new, and binds one that the client has.
func (c *Client) given(l *Lease, now time.Time) {
	if c.NoProbe || c.lease != nil && c.lease.Address.Addr() == l.Address.Addr() {
		c.bind(l, now)
		return
	}
	c.offered = l
	c.enter(Probing, now)
	c.stateUntil = now.Add(probeWait)
	c.link.Probe(l.Address.Addr())
}

// Probed is the answer to Probe: whether another host has the address.
func (c *Client) Probed(address netip.Addr, taken bool, now time.Time) {
	if c.status.State != Probing || c.offered == nil || c.offered.Address.Addr() != address {
		return
	}
	if taken {
		c.decline(now)
		return
	}
	c.bind(c.offered, now)
}

// Conflict says that another host uses the address of the lease in force (RFC 5227 section
// 2.4): it is given up.
func (c *Client) Conflict(address netip.Addr, now time.Time) {
	if c.lease == nil || c.lease.Address.Addr() != address {
		return
	}
	c.offered, c.lease = c.lease, nil
	c.link.Changed()
	c.decline(now)
}

func (c *Client) decline(now time.Time) {
	c.status.Conflicts++
	c.failures++
	c.send(c.message(dhcp4.Decline, now), allServers())
	wait := declineWait
	if c.failures >= conflictsMany {
		wait = conflictsWait
	}
	c.again(wait, now)
}

func (c *Client) refused(m *dhcp4.Message, server netip.Addr, now time.Time) bool {
	switch s := c.status.State; {
	case s == Requesting && server != c.offered.Server, s == Renewing && server.IsValid() && server != c.lease.Server:
		return false
	}
	c.status.Naks++
	c.status.Message = m.Options.Text(dhcp4.OptionMessage)
	if c.lease != nil {
		c.lease = nil
		c.link.Changed()
	}
	// the first time at once, and then slower: a server may offer what it refuses
	wait := time.Duration(0)
	if c.failures > 0 {
		wait = min(time.Second<<min(c.failures-1, 10), nakMostWait)
	}
	c.failures++
	c.again(wait, now)
	if wait == 0 {
		c.ask(now)
	}
	return true
}

func (c *Client) bind(l *Lease, now time.Time) {
	c.lease, c.offered = l, nil
	c.failures = 0
	c.enter(Bound, now)
	c.link.Changed()
}
