package access

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"time"

	"github.com/mdlayher/ndp"

	"weft/wire/dhcp6"
	"weft/wire/ppp"
)

// clientV6 is a client's side of router discovery (RFC 4861 section 6.3) and
// DHCPv6 (RFC 8415 section 18.2).
type clientV6 struct {
	session *session

	solicits  int
	solicitAt time.Time

	router   time.Time // until when the server is a default router
	heard    bool      // it advertises, be it that it is none
	prefixes map[netip.Prefix]time.Time
	dns      []netip.Addr

	phase       dhcpPhase
	transaction [3]byte
	began       time.Time
	wait        time.Duration
	sendAt      time.Time
	server      []byte
	delegated   netip.Prefix
	address     netip.Addr
	renewAt     time.Time
	rebindAt    time.Time
	endsAt      time.Time
}

type dhcpPhase uint8

const (
	dhcpOff dhcpPhase = iota
	dhcpSolicit
	dhcpRequest
	dhcpBound
	dhcpRenew
	dhcpRebind
)

// Times of RFC 4861 section 10 and RFC 8415 section 7.6.
const (
	rsEvery   = 4 * time.Second
	rsTimes   = 3
	dhcpFirst = time.Second
	dhcpMost  = 120 * time.Second
	reqMost   = 30 * time.Second
)

func newClientV6(s *session) *clientV6 {
	now := s.engine.now
	c := &clientV6{session: s, solicitAt: now, prefixes: map[netip.Prefix]time.Time{}}
	c.begin(dhcpSolicit, now)
	return c
}

func (c *clientV6) begin(p dhcpPhase, now time.Time) {
	c.phase, c.began, c.wait, c.sendAt = p, now, dhcpFirst, now
	c.transaction = newTransaction(c.session.engine.random)
}

func (c *clientV6) due() time.Time {
	d := earliest(c.solicitAt, c.router, c.endsAt)
	for _, until := range c.prefixes {
		d = earliest(d, until)
	}
	switch c.phase {
	case dhcpBound:
		d = earliest(d, c.renewAt)
	case dhcpRenew:
		d = earliest(d, c.sendAt, c.rebindAt)
	case dhcpSolicit, dhcpRequest, dhcpRebind:
		d = earliest(d, c.sendAt)
	}
	return d
}

func (c *clientV6) tick(now time.Time) {
	reached := func(t time.Time) bool { return !t.IsZero() && !now.Before(t) }
	if reached(c.solicitAt) {
		c.solicitAt = time.Time{}
		if c.solicits++; c.solicits <= rsTimes {
			c.solicitAt = now.Add(rsEvery)
			c.solicit()
		}
	}
	changed := c.solicits == rsTimes+1 && c.mute() // from now on
	if changed {
		c.solicits++
	}
	if reached(c.router) {
		c.router, changed = time.Time{}, true
	}
	for p, until := range c.prefixes {
		if reached(until) {
			delete(c.prefixes, p)
			changed = true
		}
	}
	if reached(c.endsAt) {
		c.delegated, c.address, c.endsAt, changed = netip.Prefix{}, netip.Addr{}, time.Time{}, true
		c.begin(dhcpSolicit, now)
	}
	if c.phase == dhcpBound && reached(c.renewAt) {
		c.begin(dhcpRenew, now)
	}
	if c.phase == dhcpRenew && reached(c.rebindAt) {
		c.begin(dhcpRebind, now)
	}
	if c.phase != dhcpBound && c.phase != dhcpOff && reached(c.sendAt) {
		c.ask(now)
	}
	if changed {
		c.tell()
	}
}

// tell lets others know what has changed.
func (c *clientV6) tell() {
	s := c.session
	l := &s.tunnel.client.learned
	l.Addresses, l.Delegated, l.Router = nil, netip.Prefix{}, false
	l.DNS = slices.DeleteFunc(slices.Clone(l.DNS), netip.Addr.Is6)
	c.describe(l)
	s.engine.pending.stored.sessions[s.local] = true
}

func (c *clientV6) describe(l *Learned) {
	for p := range c.prefixes {
		a := p.Addr().As16()
		copy(a[8:], c.session.link.v6.local[:])
		l.Addresses = append(l.Addresses, netip.PrefixFrom(netip.AddrFrom16(a), 64))
	}
	if c.address.IsValid() {
		l.Addresses = append(l.Addresses, netip.PrefixFrom(c.address, 128))
	}
	slices.SortFunc(l.Addresses, netip.Prefix.Compare)
	l.Delegated = c.delegated
	l.Router = !c.router.IsZero() || c.mute()
	l.DNS = append(l.DNS, c.dns...)
}

// mute tells whether the server answers no solicitation: many give what they
// have by DHCPv6 alone. There is no other router on the link.
func (c *clientV6) mute() bool { return !c.heard && c.solicits > rsTimes }

func (c *clientV6) solicit() {
	body, err := ndp.MarshalMessage(&ndp.RouterSolicitation{})
	if err != nil {
		return
	}
	s := c.session
	s.sendFrame(ppp.IPv6, packet6{from: s.linkLocal(), to: netip.MustParseAddr("ff02::2"), proto: protoICMPv6, hops: 255, payload: body}.marshal(2))
}

// id identifies this client (DUID-UUID would need one; DUID-EN is made of
// section and login, and so is the same after a restart).
func (c *clientV6) id() []byte {
	k := c.session.tunnel.client
	return append([]byte{0, 2, 0, 0, 0xff, 0xff}, cut([]byte("weft-"+k.Name+"-"+k.Login), 120)...)
}

func (c *clientV6) ask(now time.Time) {
	kind := map[dhcpPhase]dhcp6.Type{dhcpSolicit: dhcp6.Solicit, dhcpRequest: dhcp6.Request, dhcpRenew: dhcp6.Renew, dhcpRebind: dhcp6.Rebind}[c.phase]
	most := dhcpMost
	if c.phase == dhcpRequest {
		most = reqMost
		if now.Sub(c.began) > 4*reqMost {
			c.begin(dhcpSolicit, now)
			kind, most = dhcp6.Solicit, dhcpMost
		}
	}
	m := c.message(kind)
	m.Requested, m.Elapsed, m.RapidCommit = []uint16{dhcp6.OptionDNS}, now.Sub(c.began), kind == dhcp6.Solicit
	c.sendAt = now.Add(c.wait)
	c.wait = min(2*c.wait, most)
	c.send(m)
}

// message is one with all that the client has.
func (c *clientV6) message(kind dhcp6.Type) *dhcp6.Message {
	m := &dhcp6.Message{Type: kind, Transaction: c.transaction, ClientID: c.id()}
	if kind == dhcp6.Request || kind == dhcp6.Renew || kind == dhcp6.Release {
		m.ServerID = c.server
	}
	na := dhcp6.IA{ID: [4]byte{0, 0, 0, 1}}
	if c.address.IsValid() {
		na.Leases = []dhcp6.Lease{{Prefix: netip.PrefixFrom(c.address, 128)}}
	}
	m.Addresses = []dhcp6.IA{na}
	if c.session.tunnel.client.Prefix {
		pd := dhcp6.IA{ID: [4]byte{0, 0, 0, 1}}
		if c.delegated.IsValid() {
			pd.Leases = []dhcp6.Lease{{Prefix: c.delegated}}
		}
		m.Prefixes = []dhcp6.IA{pd}
	}
	return m
}

func (c *clientV6) send(m *dhcp6.Message) {
	b, err := m.Marshal()
	if err != nil {
		return
	}
	s := c.session
	s.sendFrame(ppp.IPv6, datagram6(s.linkLocal(), netip.MustParseAddr("ff02::1:2"), dhcpClientPort, dhcpServerPort, b))
}

// release gives back what the client has before its session ends (RFC 8415
// section 18.2.7). The link is about to go: it is said once.
func (c *clientV6) release() {
	if len(c.server) == 0 || !c.address.IsValid() && !c.delegated.IsValid() {
		return
	}
	c.transaction = newTransaction(c.session.engine.random)
	c.send(c.message(dhcp6.Release))
	c.phase = dhcpOff
}

// hear takes what the server says on the link.
func (c *clientV6) hear(p packet6, now time.Time) {
	if payload, _, ok := p.udp6(dhcpClientPort); ok {
		if m, err := dhcp6.Parse(payload); err == nil {
			c.answered(m, now)
		}
		return
	}
	if p.proto != protoICMPv6 || p.hops != ndp.HopLimit || p.checksum(p.payload) != 0 || !p.from.IsLinkLocalUnicast() {
		return
	}
	m, err := ndp.ParseMessage(p.payload)
	if err != nil {
		return
	}
	if r, ok := m.(*ndp.RouterAdvertisement); ok {
		c.advertised(r, now)
	}
}

func (c *clientV6) advertised(m *ndp.RouterAdvertisement, now time.Time) {
	c.solicitAt, c.router, c.heard = time.Time{}, time.Time{}, true
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
	c.tell()
}

func (c *clientV6) learnDNS(list []netip.Addr) {
	if len(list) > 0 {
		c.dns = slices.Clone(list[:min(len(list), 4)])
	}
}

func (c *clientV6) answered(m *dhcp6.Message, now time.Time) {
	if m.Transaction != c.transaction || !bytes.Equal(m.ClientID, c.id()) || len(m.ServerID) == 0 {
		return
	}
	switch {
	case m.Type == dhcp6.Advertise && c.phase == dhcpSolicit:
		if !offers(m) {
			return // it has nothing; ask again later
		}
		c.server = bytes.Clone(m.ServerID)
		c.take(m)
		c.begin(dhcpRequest, now)
		c.ask(now)
	case m.Type == dhcp6.Reply && (c.phase == dhcpSolicit && m.RapidCommit || c.phase == dhcpRequest || c.phase == dhcpRenew || c.phase == dhcpRebind):
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
func (c *clientV6) take(m *dhcp6.Message) (t1, t2, valid time.Duration) {
	c.address, c.delegated = netip.Addr{}, netip.Prefix{}
	each := func(list []dhcp6.IA, use func(netip.Prefix)) {
		for _, ia := range list {
			for _, l := range ia.Leases {
				if !l.Prefix.IsValid() || l.Valid <= 0 || l.Preferred > l.Valid {
					continue
				}
				use(l.Prefix)
				last := or(l.Preferred, l.Valid) // not preferred any more, but still there
				t1, t2 = or(ia.T1, last/2), or(ia.T2, last*4/5)
				if valid == 0 || l.Valid < valid {
					valid = l.Valid
				}
			}
		}
	}
	each(m.Addresses, func(p netip.Prefix) { c.address = p.Addr() })
	each(m.Prefixes, func(p netip.Prefix) {
		if p.Bits() <= 64 && p == p.Masked() {
			c.delegated = p
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

func (c *clientV6) bind(m *dhcp6.Message, now time.Time) {
	t1, t2, valid := c.take(m)
	c.learnDNS(m.DNS)
	if valid == 0 {
		c.endsAt = time.Time{}
		switch had := c.phase == dhcpRenew || c.phase == dhcpRebind; {
		case had && forgotten(m): // the server knows of nothing: ask it for something (section 18.2.10.1)
			c.begin(dhcpRequest, now)
			c.ask(now)
		case had:
			c.begin(dhcpSolicit, now)
			c.ask(now)
		default: // nothing for us: name servers at most. Ask again, in no hurry.
			c.begin(dhcpSolicit, now)
			c.wait, c.sendAt = dhcpMost, now.Add(dhcpMost)
		}
		c.tell()
		return
	}
	c.phase = dhcpBound
	c.renewAt, c.rebindAt, c.endsAt = now.Add(max(t1, time.Second)), now.Add(max(t2, 2*time.Second)), now.Add(valid)
	c.tell()
}

// forgotten tells whether the server has no binding of ours.
func forgotten(m *dhcp6.Message) bool {
	return slices.ContainsFunc(slices.Concat(m.Addresses, m.Prefixes), func(ia dhcp6.IA) bool {
		return ia.Status != nil && *ia.Status == dhcp6.NoBinding
	})
}

// subnet gives the n-th /64 of a prefix.
func subnet(p netip.Prefix, n int) (netip.Prefix, bool) {
	if !p.IsValid() || p.Bits() > 64 || p.Bits() > 32 && n >= 1<<(64-p.Bits()) {
		return netip.Prefix{}, false
	}
	a := p.Masked().Addr().As16()
	high := binary.BigEndian.Uint64(a[:8]) + uint64(n)
	binary.BigEndian.PutUint64(a[:8], high)
	return netip.PrefixFrom(netip.AddrFrom16(a), 64), true
}
