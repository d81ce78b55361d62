// Package dhcp6client is a host's side of IPv6 on a point-to-point link: router discovery
// (RFC 4861 section 6.3) and DHCPv6 for one address and one delegated prefix (RFC 8415
// section 18.2). It is pure: it is fed packets and the time, and emits packets.
package dhcp6client

import (
	"net/netip"
	"slices"
	"time"

	"github.com/mdlayher/ndp"

	"weft/internal/timer"
	"weft/wire/dhcp6"
	"weft/wire/ipv6"
)

// Config says what a client asks for.
type Config struct {
	// Identity tells clients apart: the client's DUID (DUID-EN, RFC 8415 section 11.3) is
	// made of it, and so is the same after a restart.
	Identity    string
	InterfaceID [8]byte // of the link, negotiated by IPV6CP
	Prefix      bool    // ask for a delegated prefix
	Random      func([]byte)
}

// Link is what a client needs of its link. Calls come while the client works: they must
// not call back.
type Link interface {
	// SendIPv6 sends a packet to the other end.
	SendIPv6(packet []byte)
	// Changed says that Lease is another one.
	Changed()
}

// Lease is what a client has.
type Lease struct {
	Addresses []netip.Prefix // by router advertisements /64, by DHCPv6 /128
	Delegated netip.Prefix
	Ends      Ends // of Delegated
	Router    bool // the other end is a default router
	DNS       []netip.Addr
}

// Ends are when a prefix stops to be preferred and to be valid.
type Ends struct{ Preferred, Valid time.Time }

// Client is a client on one link.
type Client struct {
	Config
	link Link

	solicits  int
	solicitAt time.Time

	router   time.Time // until when the server is a default router
	received bool      // it advertises, be it that it is none
	prefixes map[netip.Prefix]time.Time
	dns      []netip.Addr

	phase       phase
	transaction [3]byte
	began       time.Time
	wait        time.Duration
	sendAt      time.Time
	server      []byte
	delegated   netip.Prefix
	ends        Ends // of delegated
	address     netip.Addr
	renewAt     time.Time
	rebindAt    time.Time
	endsAt      time.Time
}

type phase uint8

const (
	off phase = iota
	soliciting
	requesting
	bound
	renewing
	rebinding
)

// Times of RFC 4861 section 10 and RFC 8415 section 7.6.
const (
	solicitEvery    = 4 * time.Second
	solicitTimes    = 3
	firstWait       = time.Second
	mostWait        = 120 * time.Second
	requestMostWait = 30 * time.Second
)

// New makes a client that begins to ask at once.
func New(config Config, link Link, now time.Time) *Client {
	c := &Client{Config: config, link: link, solicitAt: now, prefixes: map[netip.Prefix]time.Time{}}
	c.begin(soliciting, now)
	return c
}

func (c *Client) begin(p phase, now time.Time) {
	c.phase, c.began, c.wait, c.sendAt = p, now, firstWait, now
	c.transaction = c.newTransaction()
}

func (c *Client) newTransaction() (t [3]byte) {
	c.Random(t[:])
	return t
}

// Due is when Tick has something to do; zero: never.
func (c *Client) Due() time.Time {
	d := timer.Earliest(c.solicitAt, c.router, c.endsAt)
	for _, until := range c.prefixes {
		d = timer.Earliest(d, until)
	}
	switch c.phase {
	case bound:
		d = timer.Earliest(d, c.renewAt)
	case renewing:
		d = timer.Earliest(d, c.sendAt, c.rebindAt)
	case soliciting, requesting, rebinding:
		d = timer.Earliest(d, c.sendAt)
	}
	return d
}

// Tick does what is due.
func (c *Client) Tick(now time.Time) {
	reached := func(t time.Time) bool { return !t.IsZero() && !now.Before(t) }
	if reached(c.solicitAt) {
		c.solicitAt = time.Time{}
		if c.solicits++; c.solicits <= solicitTimes {
			c.solicitAt = now.Add(solicitEvery)
			c.solicit()
		}
	}
	changed := c.solicits == solicitTimes+1 && c.silent() // from now on
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
		c.delegated, c.ends, c.address, c.endsAt, changed = netip.Prefix{}, Ends{}, netip.Addr{}, time.Time{}, true
		c.begin(soliciting, now)
	}
	if c.phase == bound && reached(c.renewAt) {
		c.begin(renewing, now)
	}
	if c.phase == renewing && reached(c.rebindAt) {
		c.begin(rebinding, now)
	}
	if c.phase != bound && c.phase != off && reached(c.sendAt) {
		c.ask(now)
	}
	if changed {
		c.link.Changed()
	}
}

// Lease returns what the client has now.
func (c *Client) Lease() Lease {
	l := Lease{Delegated: c.delegated, Ends: c.ends, Router: !c.router.IsZero() || c.silent(), DNS: slices.Clone(c.dns)}
	for p := range c.prefixes {
		a := p.Addr().As16()
		copy(a[8:], c.InterfaceID[:])
		l.Addresses = append(l.Addresses, netip.PrefixFrom(netip.AddrFrom16(a), 64))
	}
	if c.address.IsValid() {
		l.Addresses = append(l.Addresses, netip.PrefixFrom(c.address, 128))
	}
	slices.SortFunc(l.Addresses, netip.Prefix.Compare)
	return l
}

// silent reports whether the server answers no solicitation: many give what they
// have by DHCPv6 alone. There is no other router on the link.
func (c *Client) silent() bool { return !c.received && c.solicits > solicitTimes }

func (c *Client) solicit() {
	body, err := ndp.MarshalMessage(&ndp.RouterSolicitation{})
	if err != nil {
		return
	}
	c.link.SendIPv6(ipv6.Packet{From: c.linkLocal(), To: allRouters(), NextHeader: ipv6.ICMPv6, HopLimit: 255, Payload: body}.Marshal(2))
}

// duid identifies the client.
func (c *Client) duid() []byte {
	return append([]byte{0, 2, 0, 0, 0xff, 0xff}, c.Identity[:min(len(c.Identity), 120)]...)
}

// linkLocal is the client's own address on the link.
func (c *Client) linkLocal() netip.Addr {
	a := [16]byte{0: 0xfe, 1: 0x80}
	copy(a[8:], c.InterfaceID[:])
	return netip.AddrFrom16(a)
}

// Multicast groups of RFC 4861 section 2.3 and RFC 8415 section 7.1.
func allRouters() netip.Addr { return netip.IPv6LinkLocalAllRouters() }
func allServers() netip.Addr { return netip.MustParseAddr("ff02::1:2") }

func (c *Client) ask(now time.Time) {
	kind := map[phase]dhcp6.Type{soliciting: dhcp6.Solicit, requesting: dhcp6.Request, renewing: dhcp6.Renew, rebinding: dhcp6.Rebind}[c.phase]
	most := mostWait
	if c.phase == requesting {
		most = requestMostWait
		if now.Sub(c.began) > 4*requestMostWait {
			c.begin(soliciting, now)
			kind, most = dhcp6.Solicit, mostWait
		}
	}
	m := c.message(kind)
	m.Requested, m.Elapsed, m.RapidCommit = []uint16{dhcp6.OptionDNS}, now.Sub(c.began), kind == dhcp6.Solicit
	c.sendAt = now.Add(c.wait)
	c.wait = min(2*c.wait, most)
	c.send(m)
}

// message is one with all that the client has.
func (c *Client) message(kind dhcp6.Type) *dhcp6.Message {
	m := &dhcp6.Message{Type: kind, Transaction: c.transaction, ClientID: c.duid()}
	if kind == dhcp6.Request || kind == dhcp6.Renew || kind == dhcp6.Release {
		m.ServerID = c.server
	}
	na := dhcp6.IA{ID: [4]byte{0, 0, 0, 1}}
	if c.address.IsValid() {
		na.Leases = []dhcp6.Lease{{Prefix: netip.PrefixFrom(c.address, 128)}}
	}
	m.Addresses = []dhcp6.IA{na}
	if c.Prefix {
		pd := dhcp6.IA{ID: [4]byte{0, 0, 0, 1}}
		if c.delegated.IsValid() {
			pd.Leases = []dhcp6.Lease{{Prefix: c.delegated}}
		}
		m.Prefixes = []dhcp6.IA{pd}
	}
	return m
}

func (c *Client) send(m *dhcp6.Message) {
	b, err := m.Marshal()
	if err != nil {
		return
	}
	c.link.SendIPv6(ipv6.MarshalUDP(c.linkLocal(), allServers(), dhcp6.ClientPort, dhcp6.ServerPort, b))
}

// Release gives back what the client has before its session ends (RFC 8415
// section 18.2.7). The link is about to go: it is sent once.
func (c *Client) Release() {
	if len(c.server) == 0 || !c.address.IsValid() && !c.delegated.IsValid() {
		return
	}
	c.transaction = c.newTransaction()
	c.send(c.message(dhcp6.Release))
	c.phase = off
}
