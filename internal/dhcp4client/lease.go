package dhcp4client

import (
	"net/netip"
	"slices"
	"time"

	"weft/wire/dhcp4"
)

// Lease is what a server gave, as a plain value for a state file. Zero times: never.
type Lease struct {
	Address  netip.Prefix  `json:"address"` // with the length of the link's prefix
	Server   netip.Addr    `json:"server"`
	Routers  []netip.Addr  `json:"routers,omitempty"` // none if there are Routes (RFC 3442)
	Routes   []dhcp4.Route `json:"routes,omitempty"`
	DNS      []netip.Addr  `json:"dns,omitempty"`
	NTP      []netip.Addr  `json:"ntp,omitempty"`
	Domain   string        `json:"domain,omitempty"`
	Search   []string      `json:"search,omitempty"`
	HostName string        `json:"host_name,omitempty"`
	MTU      int           `json:"mtu,omitempty"`
	SixRD    *dhcp4.SixRD  `json:"six_rd,omitempty"`
	Portal   string        `json:"portal,omitempty"`
	Options  dhcp4.Options `json:"options,omitempty"` // all that the server sent
	Obtained time.Time     `json:"obtained"`
	Renew    time.Time     `json:"renew,omitzero"`
	Rebind   time.Time     `json:"rebind,omitzero"`
	Ends     time.Time     `json:"ends,omitzero"`
}

func (l *Lease) clone() *Lease {
	c := *l
	c.Routers, c.Routes, c.DNS, c.NTP = slices.Clone(l.Routers), slices.Clone(l.Routes), slices.Clone(l.DNS), slices.Clone(l.NTP)
	c.Search, c.Options = slices.Clone(l.Search), slices.Clone(l.Options)
	return &c
}

// read reads what a server gives; ok is whether it makes sense.
func (c *Client) read(m *dhcp4.Message, now time.Time) (l *Lease, ok bool) {
	a, o := m.Your, m.Options
	if !a.IsValid() || a.IsLoopback() || a.IsMulticast() || a.As4()[0] == 0 || a.As4()[0] >= 240 {
		return nil, false
	}
	bits, ok := o.Mask()
	if !ok {
		bits = classBits(a) // as hosts did before there were masks
	}
	if bits == 0 {
		return nil, false
	}
	l = &Lease{
		Address: netip.PrefixFrom(a, bits), Server: o.Address(dhcp4.OptionServerID), Routers: o.Addresses(dhcp4.OptionRouter), DNS: o.Addresses(dhcp4.OptionDNS),
		NTP: o.Addresses(dhcp4.OptionNTP), Domain: o.Text(dhcp4.OptionDomain), Search: o.Search(), HostName: o.Text(dhcp4.OptionHostName), Portal: o.Text(dhcp4.OptionPortal),
		Options: o, Obtained: now,
	}
	if routes, whole := o.Routes(); whole {
		l.Routes, l.Routers = routes, nil
	}
	if mtu, is := o.Uint16(dhcp4.OptionMTU); is && mtu >= mtuLeast {
		l.MTU = int(mtu)
	}
	if s, is := o.SixRD(); is {
		l.SixRD = &s
	}
	return l, c.times(l, o, now)
}

// classBits is the length of a prefix by the class of an address (RFC 791).
func classBits(a netip.Addr) int {
	switch first := a.As4()[0]; {
	case first < 128:
		return 8
	case first < 192:
		return 16
	}
	return 24
}

// times sets the times of a lease; it reports whether the lease is long enough.
func (c *Client) times(l *Lease, o dhcp4.Options, now time.Time) bool {
	seconds := func(code uint8) time.Duration {
		n, _ := o.Uint32(code)
		return time.Duration(n) * time.Second
	}
	_, said := o.Uint32(dhcp4.OptionLeaseTime)
	total := seconds(dhcp4.OptionLeaseTime)
	switch infinite := total == dhcp4.Infinite*time.Second; {
	case infinite && c.LongestTime == 0:
		return true
	case !said:
		total = missingTime
	}
	shortest := c.ShortestTime
	if shortest == 0 {
		shortest = shortestTime
	}
	if total < shortest {
		return false
	}
	shown := total
	if c.LongestTime > 0 {
		shown = min(total, max(c.LongestTime, shortest))
	}
	if total < dhcp4.Infinite*time.Second {
		l.Ends = now.Add(total)
	}
	t1, t2 := seconds(dhcp4.OptionRenewal), seconds(dhcp4.OptionRebinding)
	if t1 <= 0 || t2 <= t1 || t2 >= total || shown < total {
		t1, t2 = shown/2, shown*7/8
	}
	l.Renew, l.Rebind = now.Add(t1), now.Add(t2)
	return true
}
