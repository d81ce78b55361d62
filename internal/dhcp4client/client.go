// Package dhcp4client is a host's side of DHCPv4 (RFC 2131 section 4.4): from the first
// DHCPDISCOVER to the renewal of a lease. It is pure: it is fed messages and the time, and
// emits messages. All times are those that it is fed, whose monotonic part counts.
package dhcp4client

import (
	"net/netip"
	"slices"
	"time"

	"weft/internal/timer"
	"weft/wire/dhcp4"
)

// Config says how a client asks, and for what.
type Config struct {
	Hardware     string // its hardware address
	ClientID     []byte // option 61; empty: of the hardware address
	NoClientID   bool   // send no option 61: the few servers that tell clients by chaddr alone
	HostName     string
	VendorClass  string   // option 60
	UserClasses  []string // option 77 as RFC 3004 writes it; another form goes into Options
	Options      dhcp4.Options
	Requested    []uint8       // options that it asks for beside its own list
	LeaseTime    time.Duration // that it asks for; 0: the server's choice
	Broadcast    bool          // ask for answers by broadcast
	RapidCommit  bool          // RFC 4039
	IPv6Only     bool          // it can do without IPv4 (RFC 8925)
	NoProbe      bool          // take an address without asking whether another host has it
	Servers      []netip.Addr  // whose answers count; empty: any
	ShortestTime time.Duration // offers of a shorter lease are ignored; 0: 10 s
	LongestTime  time.Duration // a longer lease is renewed as if it were this; 0: no bound
	Random       func([]byte)
}

// Link is what a client needs of its link. Calls come while the client works: they must
// not call back.
type Link interface {
	// Send sends a message to a server, or to all (255.255.255.255).
	Send(message []byte, to netip.Addr)
	// Probe asks whether another host has the address (RFC 5227): Probed is the answer.
	Probe(address netip.Addr)
	// Changed says that Lease is another one, or the same until a later time.
	Changed()
}

// State is where a client is (RFC 2131 figure 5).
type State string

const (
	Init       State = "INIT" // waits before it begins again
	Selecting  State = "SELECTING"
	Requesting State = "REQUESTING"
	Probing    State = "PROBING" // an address that it was given
	Bound      State = "BOUND"
	Renewing   State = "RENEWING"
	Rebinding  State = "REBINDING"
	Rebooting  State = "REBOOTING"
	IPv6Only   State = "IPV6-ONLY" // the network prefers hosts without IPv4, and this one can
	Released   State = "RELEASED"
)

// Status is what there is to say about a client.
type Status struct {
	State     State     `json:"state"`
	Since     time.Time `json:"since"` // when it began to ask, or was bound
	Sent      uint64    `json:"sent"`
	Received  uint64    `json:"received"`
	Ignored   uint64    `json:"ignored"` // not for it, not from its server, or without sense
	Naks      uint64    `json:"naks"`
	Conflicts uint64    `json:"conflicts"`
	Message   string    `json:"message,omitempty"` // of the server's last DHCPNAK
}

// Client is a client on one link.
type Client struct {
	Config
	link Link

	status      Status
	transaction uint32
	began       time.Time // of this exchange
	tries       int
	sendAt      time.Time
	stateUntil  time.Time // of Init and IPv6Only
	failures    int       // DHCPNAKs and conflicts in a row

	lease   *Lease // in force
	offered *Lease // asked for, being probed, or of the last time (Rebooting)
}

// Times of RFC 2131 section 4.1 and RFC 5227 section 1.1.
const (
	firstWait     = 4 * time.Second
	mostWait      = 64 * time.Second
	requestTries  = 4 // then the offer is given up
	rebootTries   = 2 // then a server that does not know of the lease may give another
	leastRenewal  = 60 * time.Second
	declineWait   = 10 * time.Second
	conflictsMany = 10
	conflictsWait = 60 * time.Second
	nakMostWait   = 64 * time.Second
	probeWait     = 20 * time.Second // for an answer of the link
	shortestTime  = 10 * time.Second
	missingTime   = time.Hour         // of a lease whose server says none
	leastIPv6Only = 300 * time.Second // RFC 8925 section 3.4
	mtuLeast      = 576
)

// New makes a client that begins to ask at once.
func New(config Config, link Link, now time.Time) *Client {
	c := &Client{Config: config, link: link}
	c.begin(Selecting, now)
	return c
}

// Restore makes a client that asks for the lease of an earlier process or of before a
// reboot (INIT-REBOOT). In force says that the address is on the device and in use: it
// stays so while the server is asked. A lease that has ended, or that was made at a later
// time than now, is not kept.
func Restore(config Config, link Link, lease Lease, inForce bool, now time.Time) *Client {
	c := New(config, link, now)
	if !lease.Address.IsValid() || now.Before(lease.Obtained) || !lease.Ends.IsZero() && !now.Before(lease.Ends) {
		return c
	}
	if inForce {
		c.lease = lease.clone()
	}
	c.offered = lease.clone()
	c.begin(Rebooting, now)
	return c
}

// Lease returns the lease in force.
func (c *Client) Lease() (l Lease, ok bool) {
	if c.lease == nil {
		return l, false
	}
	return *c.lease.clone(), true
}

// Status returns what there is to say about the client.
func (c *Client) Status() Status { return c.status }

func (c *Client) begin(s State, now time.Time) {
	c.enter(s, now)
	c.began, c.tries, c.sendAt = now, 0, now
	if s != Requesting { // which goes on with the exchange of the offer
		var b [4]byte
		c.Random(b[:])
		c.transaction = uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	}
}

func (c *Client) enter(s State, now time.Time) {
	c.status.State, c.status.Since = s, now
	c.sendAt, c.stateUntil = time.Time{}, time.Time{}
}

// again begins once more after a while.
func (c *Client) again(after time.Duration, now time.Time) {
	c.offered = nil
	if after == 0 {
		c.begin(Selecting, now)
		return
	}
	c.enter(Init, now)
	c.stateUntil = now.Add(after)
}

// Due is when Tick has something to do; zero: never.
func (c *Client) Due() time.Time {
	d := timer.Earliest(c.sendAt, c.stateUntil)
	if c.lease == nil {
		return d
	}
	switch c.status.State {
	case Bound:
		return timer.Earliest(d, c.lease.Renew, c.lease.Rebind, c.lease.Ends)
	case Renewing:
		return timer.Earliest(d, c.lease.Rebind, c.lease.Ends)
	}
	return timer.Earliest(d, c.lease.Ends)
}

// Tick does what is due.
func (c *Client) Tick(now time.Time) {
	reached := func(t time.Time) bool { return !t.IsZero() && !now.Before(t) }
	if c.lease != nil && reached(c.lease.Ends) {
		c.lease = nil
		c.link.Changed()
		if s := c.status.State; s == Bound || s == Renewing || s == Rebinding || s == Rebooting {
			c.again(0, now)
		}
	}
	if c.lease != nil {
		if c.status.State == Bound && reached(c.lease.Renew) {
			c.begin(Renewing, now)
		}
		if c.status.State == Renewing && reached(c.lease.Rebind) {
			c.begin(Rebinding, now)
		}
	}
	if reached(c.stateUntil) {
		if c.status.State == Probing { // the link does not say; the address is taken
			c.Probed(c.offered.Address.Addr(), false, now)
			return
		}
		c.begin(Selecting, now)
	}
	if reached(c.sendAt) {
		c.ask(now)
	}
}

// ask sends the message of the state, and says when it is due again.
func (c *Client) ask(now time.Time) {
	c.sendAt = now.Add(c.wait(now))
	switch s := c.status.State; {
	case s == Requesting && c.tries >= requestTries:
		c.again(0, now)
		c.ask(now)
		return
	case s == Rebooting && c.tries >= rebootTries:
		// no server says anything: a lease in force goes on, until its end
		if c.lease != nil {
			c.bind(c.lease, now)
			return
		}
		c.again(0, now)
		c.ask(now)
		return
	}
	c.tries++
	switch c.status.State {
	case Selecting:
		c.send(c.message(dhcp4.Discover, now), allServers())
	case Requesting, Rebooting:
		c.send(c.message(dhcp4.Request, now), allServers())
	case Renewing:
		c.send(c.message(dhcp4.Request, now), c.lease.Server)
	case Rebinding:
		c.send(c.message(dhcp4.Request, now), allServers())
	}
}

// wait is the time until the next try: 4 s and doubled, give or take a second, and
// towards the end of a lease half of what is left (RFC 2131 sections 4.1 and 4.4.5).
func (c *Client) wait(now time.Time) time.Duration {
	half := func(until time.Time) time.Duration {
		if until.IsZero() {
			return time.Hour
		}
		least := leastRenewal
		if !c.lease.Ends.IsZero() { // a short lease has no minute to wait
			least = min(least, max(c.lease.Ends.Sub(c.lease.Obtained)/16, time.Second))
		}
		return max(until.Sub(now)/2, least)
	}
	switch c.status.State {
	case Renewing:
		return half(c.lease.Rebind)
	case Rebinding:
		return half(c.lease.Ends)
	}
	d := min(firstWait<<min(c.tries, 8), mostWait)
	var b [2]byte
	c.Random(b[:])
	return d - time.Second + time.Duration(uint16(b[0])<<8|uint16(b[1]))*2*time.Second/65536
}

func allServers() netip.Addr { return netip.AddrFrom4([4]byte{255, 255, 255, 255}) }

func (c *Client) send(m *dhcp4.Message, to netip.Addr) {
	b, _, err := m.Marshal(1472)
	if err != nil {
		return // a configuration that no message can hold
	}
	c.status.Sent++
	c.link.Send(b, to)
}

// message is one of the client's (RFC 2131 table 5).
func (c *Client) message(kind dhcp4.Type, now time.Time) *dhcp4.Message {
	m := &dhcp4.Message{
		Op: dhcp4.BootRequest, HardwareType: dhcp4.Ethernet, Hardware: c.Hardware, Transaction: c.transaction,
		Seconds: uint16(min(max(now.Sub(c.began)/time.Second, 0), 0xffff)), Broadcast: c.Broadcast,
	}
	o := &m.Options
	o.Set(dhcp4.Uint8(dhcp4.OptionType, uint8(kind)))
	if id := c.clientID(); id != nil {
		o.Set(dhcp4.Bytes(dhcp4.OptionClientID, id))
	}
	asks := kind == dhcp4.Discover || kind == dhcp4.Request
	switch s := c.status.State; {
	case kind == dhcp4.Decline || kind == dhcp4.Request && s == Requesting:
		o.Set(dhcp4.Addresses(dhcp4.OptionAddress, c.offered.Address.Addr()), dhcp4.Addresses(dhcp4.OptionServerID, c.offered.Server))
	case kind == dhcp4.Request && s == Rebooting:
		o.Set(dhcp4.Addresses(dhcp4.OptionAddress, c.offered.Address.Addr()))
	case kind == dhcp4.Request:
		m.Client = c.lease.Address.Addr()
	case kind == dhcp4.Release:
		m.Client = c.lease.Address.Addr()
		o.Set(dhcp4.Addresses(dhcp4.OptionServerID, c.lease.Server))
	}
	if !asks {
		return m
	}
	o.Set(dhcp4.Uint16(dhcp4.OptionMaxSize, 1500), dhcp4.Bytes(dhcp4.OptionRequested, c.requested()))
	if c.LeaseTime > 0 {
		o.Set(dhcp4.Seconds(dhcp4.OptionLeaseTime, c.LeaseTime))
	}
	if c.HostName != "" {
		o.Set(dhcp4.Text(dhcp4.OptionHostName, c.HostName))
	}
	if c.VendorClass != "" {
		o.Set(dhcp4.Text(dhcp4.OptionVendorClass, c.VendorClass))
	}
	if len(c.UserClasses) > 0 {
		o.Set(dhcp4.UserClasses(c.UserClasses...))
	}
	if c.RapidCommit && kind == dhcp4.Discover {
		o.Set(dhcp4.Bytes(dhcp4.OptionRapidCommit, []byte{}))
	}
	o.Set(c.Options...)
	return m
}

func (c *Client) clientID() []byte {
	if c.NoClientID {
		return nil
	}
	if len(c.ClientID) > 0 {
		return c.ClientID
	}
	return dhcp4.HardwareID(dhcp4.Ethernet, c.Hardware).Data
}

// requested is the parameter request list. Option 121 stands before 3, as RFC 3442 asks.
func (c *Client) requested() []byte {
	list := []byte{
		dhcp4.OptionMask, dhcp4.OptionRoutes, dhcp4.OptionRouter, dhcp4.OptionDNS, dhcp4.OptionHostName, dhcp4.OptionDomain, dhcp4.OptionMTU, dhcp4.OptionBroadcast,
		dhcp4.OptionNTP, dhcp4.OptionRenewal, dhcp4.OptionRebinding, dhcp4.OptionSearch, dhcp4.OptionPortal, dhcp4.OptionSixRD,
	}
	if c.IPv6Only {
		list = append(list, dhcp4.OptionIPv6Only)
	}
	for _, code := range c.Requested {
		if !slices.Contains(list, code) && code != dhcp4.OptionPad && code != dhcp4.OptionEnd {
			list = append(list, code)
		}
	}
	return list
}

// Verify asks whether the lease still holds, as after a link was down (INIT-REBOOT); it
// stays in force meanwhile.
func (c *Client) Verify(now time.Time) {
	switch {
	case c.status.State == Released:
	case c.lease != nil:
		c.offered = c.lease.clone()
		c.begin(Rebooting, now)
	case c.status.State != Probing:
		c.failures = 0
		c.again(0, now)
	}
}

// Release gives the lease back, and ends the client.
func (c *Client) Release(now time.Time) {
	if c.lease != nil {
		m := c.message(dhcp4.Release, now)
		if c.lease.Server.IsValid() {
			c.send(m, c.lease.Server)
		}
		c.lease = nil
		c.link.Changed()
	}
	c.offered = nil
	c.enter(Released, now)
}
