package dhcp6client

import (
	"bytes"
	"net/netip"
	"slices"
	"time"

	"github.com/mdlayher/ndp"

	"weft/wire/dhcp6"
	"weft/wire/ipv6"
)

// Receive takes a packet that came for the link itself.
func (c *Client) Receive(p ipv6.Packet, now time.Time) {
	if payload, _, ok := p.Datagram(dhcp6.ClientPort); ok {
		if m, err := dhcp6.Parse(payload); err == nil {
			c.answered(m, now)
		}
		return
	}
	if p.NextHeader != ipv6.ICMPv6 || p.HopLimit != ndp.HopLimit || p.Checksum(p.Payload) != 0 || !p.From.IsLinkLocalUnicast() {
		return
	}
	m, err := ndp.ParseMessage(p.Payload)
	if err != nil {
		return
	}
	if r, ok := m.(*ndp.RouterAdvertisement); ok {
		c.advertised(r, now)
	}
}

func (c *Client) advertised(m *ndp.RouterAdvertisement, now time.Time) {
	c.solicitAt, c.router, c.received = time.Time{}, time.Time{}, true
	if m.RouterLifetime > 0 {
		c.router = now.Add(m.RouterLifetime)
	}
	for _, o := range m.Options {
		switch o := o.(type) {
		case *ndp.PrefixInformation:
			p := netip.PrefixFrom(o.Prefix, int(o.PrefixLength)).Masked()
			if !o.AutonomousAddressConfiguration || p.Bits() != 64 || p.Addr().IsLinkLocalUnicast() || p.Addr().IsMulticast() {
				continue
			}
			if delete(c.prefixes, p); o.ValidLifetime > 0 && len(c.prefixes) < 4 {
				c.prefixes[p] = now.Add(o.ValidLifetime)
			}
		case *ndp.RecursiveDNSServer:
			c.learnDNS(o.Servers)
		}
	}
	c.link.Changed()
}

func (c *Client) learnDNS(list []netip.Addr) {
	if len(list) > 0 {
		c.dns = slices.Clone(list[:min(len(list), 4)])
	}
}

func (c *Client) answered(m *dhcp6.Message, now time.Time) {
	if m.Transaction != c.transaction || !bytes.Equal(m.ClientID, c.duid()) || len(m.ServerID) == 0 {
		return
	}
	if (c.phase == requesting || c.phase == renewing) && !bytes.Equal(m.ServerID, c.server) {
		return // these questions were for one server
	}
	switch {
	case m.Type == dhcp6.Advertise && c.phase == soliciting:
		if !offers(m) {
			return // it has nothing; ask again later
		}
		c.server = bytes.Clone(m.ServerID)
		c.take(m, now)
		c.begin(requesting, now)
		c.ask(now)
	case m.Type == dhcp6.Reply && (c.phase == soliciting && m.RapidCommit || c.phase == requesting || c.phase == renewing || c.phase == rebinding):
		c.server = bytes.Clone(m.ServerID)
		c.bind(m, now)
	}
}

func offers(m *dhcp6.Message) bool {
	for _, ia := range slices.Concat(m.Addresses, m.Prefixes) {
		for _, l := range ia.Leases {
			if l.Prefix.IsValid() && l.Valid > 0 {
				return true
			}
		}
	}
	return false
}

// take reads what a message gives, and gives the times of it.
func (c *Client) take(m *dhcp6.Message, now time.Time) (t1, t2, valid time.Duration) {
	c.address, c.delegated, c.ends = netip.Addr{}, netip.Prefix{}, Ends{}
	each := func(list []dhcp6.IA, use func(dhcp6.Lease)) {
		for _, ia := range list {
			for _, l := range ia.Leases {
				if !l.Prefix.IsValid() || l.Valid <= 0 || l.Preferred > l.Valid {
					continue
				}
				use(l)
				last := or(l.Preferred, l.Valid) // not preferred any more, but still there
				t1, t2 = or(ia.T1, last/2), or(ia.T2, last*4/5)
				if valid == 0 || l.Valid < valid {
					valid = l.Valid
				}
			}
		}
	}
	each(m.Addresses, func(l dhcp6.Lease) { c.address = l.Prefix.Addr() })
	each(m.Prefixes, func(l dhcp6.Lease) {
		if p := l.Prefix; p.Bits() <= 64 && p == p.Masked() {
			c.delegated, c.ends = p, Ends{Preferred: now.Add(l.Preferred), Valid: now.Add(l.Valid)}
		}
	})
	return t1, t2, valid
}

func or(a, b time.Duration) time.Duration {
	if a > 0 {
		return a
	}
	return b
}

func (c *Client) bind(m *dhcp6.Message, now time.Time) {
	t1, t2, valid := c.take(m, now)
	c.learnDNS(m.DNS)
	if valid == 0 {
		c.endsAt = time.Time{}
		switch had := c.phase == renewing || c.phase == rebinding; {
		case had && forgotten(m): // the server knows of nothing: ask it for something (section 18.2.10.1)
			c.begin(requesting, now)
			c.ask(now)
		case had:
			c.begin(soliciting, now)
			c.ask(now)
		default: // nothing for us: name servers at most. Ask again, in no hurry.
			c.begin(soliciting, now)
			c.wait, c.sendAt = mostWait, now.Add(mostWait)
		}
		c.link.Changed()
		return
	}
	c.phase = bound
	c.renewAt, c.rebindAt, c.endsAt = now.Add(max(t1, time.Second)), now.Add(max(t2, 2*time.Second)), now.Add(valid)
	c.link.Changed()
}

// forgotten reports whether the server has no binding of ours.
func forgotten(m *dhcp6.Message) bool {
	return slices.ContainsFunc(slices.Concat(m.Addresses, m.Prefixes), func(ia dhcp6.IA) bool {
		return ia.Status != nil && *ia.Status == dhcp6.NoBinding
	})
}
