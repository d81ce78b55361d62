package api

import (
	"net/netip"
	"time"

	"weft/internal/dnsio"
	"weft/internal/feature/dns64"
	"weft/internal/feature/ra"
)

// DNS64 is what `weft show dns64` shows.
type DNS64 struct {
	Listen     []string               `json:"listen"`
	Cached     int                    `json:"cached"`
	Forwarders []dnsio.ForwarderState `json:"forwarders"`
	Counters   []dns64.Counter        `json:"counters"`
}

// Advert is a row of `weft show ra`: one link.
type Advert struct {
	Name       string         `json:"name"`
	Device     string         `json:"device"`
	Lifetime   string         `json:"lifetime"`
	Prefixes   []netip.Prefix `json:"prefixes"`
	Deprecated []netip.Prefix `json:"deprecated"`
	DNS        []netip.Addr   `json:"dns"`
	PREF64     []netip.Prefix `json:"pref64"`
	DHCPv6     string         `json:"dhcpv6"`
	Fault      string         `json:"fault,omitempty"` // why it does not serve now
	Stats      ra.Stats       `json:"advertisements"`
	DHCP       *ra.DHCPStats  `json:"dhcpv6_messages,omitempty"`
	Leases     []LeaseRow     `json:"leases"`
}

// LeaseRow is a lease.
type LeaseRow struct {
	Client string       `json:"client"` // DUID, hexadecimal
	Kind   string       `json:"kind"`
	Prefix netip.Prefix `json:"prefix"`
	Peer   netip.Addr   `json:"peer"`
	Until  time.Time    `json:"until"`
}
