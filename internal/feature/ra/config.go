// Package ra tells the hosts of a link how to live on it: router
// advertisements (RFC 4861) with prefixes, name servers, routes and the
// translator's prefix, and DHCPv6 (RFC 8415) for addresses and prefixes.
package ra

import (
	"net/netip"
	"time"

	"weft/internal/config"
)

// Config is [ra.NAME].
type Config struct {
	Interface    string         `toml:"interface" example:"\"lan\"" doc:"The NAME of the interface whose hosts are told. Default: NAME."`
	Lifetime     time.Duration  `toml:"lifetime" min:"0s" max:"9000s" example:"\"30m\"" doc:"For how long hosts may use this router as a default router after each advertisement; \"0s\": it is none, the rest still holds (RFC 4861 section 6.2.1)."`
	MaxInterval  time.Duration  `toml:"max_interval" min:"4s" max:"1800s" example:"\"10m\"" doc:"The longest time between two advertisements to everybody; the shortest is a third of it."`
	Preference   Preference     `toml:"preference" enum:"low,medium,high" example:"\"medium\"" doc:"Which of several routers hosts prefer (RFC 4191)."`
	HopLimit     int            `toml:"hop_limit" min:"0" max:"255" example:"64" doc:"The hop limit that hosts send with; 0 says nothing of it."`
	MTU          int            `toml:"mtu" min:"0" max:"65535" example:"1492" doc:"The MTU of the link in bytes; 0 says nothing of it."`
	Prefixes     []Prefix       `toml:"prefixes" example:"[{ prefix = \"2001:db8:1::/64\" }]" doc:"The prefixes of the link, out of which hosts make their addresses. Default: the IPv6 subnets of length 64 of the interface."`
	Preferred    time.Duration  `toml:"preferred" min:"0s" max:"720h" example:"\"45m\"" doc:"How long hosts begin connections from an address after the last advertisement of its prefix (RFC 9096 section 3.3)."`
	Valid        time.Duration  `toml:"valid" min:"0s" max:"720h" example:"\"90m\"" doc:"How long they keep the address at all."`
	Routes       []Route        `toml:"routes" example:"[{ prefix = \"2001:db8:9::/48\" }]" doc:"Further prefixes that this router reaches, for hosts that have another default router (RFC 4191)."`
	DNS          []netip.Addr   `toml:"dns" ip:"6" example:"[\"2001:db8:1::1\"]" doc:"The name servers (RFC 8106). Default: this router, if [dns64] answers on the interface."`
	Search       []string       `toml:"search" example:"[\"example.net\"]" doc:"The domains in which hosts look for short names (RFC 8106)."`
	PREF64       []netip.Prefix `toml:"pref64" ip:"6" example:"[\"64:ff9b::/96\"]" doc:"The translator's prefixes (RFC 8781). Default: those of the [nat64.NAME] sections that serve the interface; [] tells of none."`
	Portal       string         `toml:"captive_portal" example:"\"https://pay.example.net/api\"" doc:"The URI of the captive portal's API (RFC 8908), told by advertisements and by DHCPv6 (RFC 8910)."`
	DHCPv6       DHCPMode       `toml:"dhcpv6" enum:"off,stateless,stateful" example:"\"stateless\"" doc:"What is answered by DHCPv6: nothing; stateless: name servers and search domains; stateful: addresses and prefixes too."`
	Pool         []netip.Prefix `toml:"pool" ip:"6" example:"[\"2001:db8:1::d:0/112\"]" doc:"Stateful: the addresses that are given out, parts of the link's prefixes."`
	Delegate     []netip.Prefix `toml:"delegate" ip:"6" example:"[\"2001:db8:100::/48\"]" doc:"Stateful: the space out of which routers behind this one get prefixes of their own. weft routes those to them."`
	DelegateBits int            `toml:"delegate_bits" min:"1" max:"64" example:"56" doc:"The length of a delegated prefix."`
	Leases       string         `toml:"leases" example:"\"/var/lib/weft/lan.leases\"" doc:"Stateful: the file in which leases outlive a restart. Default: /var/lib/weft/NAME.leases."`
}

// Prefix is one prefix of the link.
type Prefix struct {
	Prefix        netip.Prefix  `toml:"prefix" required:"true" ip:"6" example:"\"2001:db8:1::/64\"" doc:"The prefix; hosts make addresses only of length 64."`
	NotOnLink     bool          `toml:"not_on_link" example:"false" doc:"Hosts send to its addresses by the router, not directly (flag L clear)."`
	NotAutonomous bool          `toml:"not_autonomous" example:"false" doc:"Hosts do not make addresses of it (flag A clear)."`
	Preferred     time.Duration `toml:"preferred" min:"0s" max:"720h" example:"\"45m\"" doc:"Like preferred above."`
	Valid         time.Duration `toml:"valid" min:"0s" max:"720h" example:"\"90m\"" doc:"Like valid above."`
}

// Route is a prefix that this router reaches.
type Route struct {
	Prefix     netip.Prefix  `toml:"prefix" required:"true" ip:"6" example:"\"2001:db8:9::/48\"" doc:"The prefix."`
	Preference Preference    `toml:"preference" enum:"low,medium,high" example:"\"medium\"" doc:"Which of several routers hosts prefer for it. Default: medium."`
	Lifetime   time.Duration `toml:"lifetime" min:"0s" max:"720h" example:"\"30m\"" doc:"How long it holds. Default: lifetime above, or max_interval times three if that is zero."`
}

// Preference is that of RFC 4191 section 2.1.
type Preference string

const (
	PreferenceLow    Preference = "low"
	PreferenceMedium Preference = "medium"
	PreferenceHigh   Preference = "high"
)

// DHCPMode is what is answered by DHCPv6.
type DHCPMode string

const (
	DHCPOff       DHCPMode = "off"
	DHCPStateless DHCPMode = "stateless"
	DHCPStateful  DHCPMode = "stateful"
)

// Section is what config.Load needs to read [ra.NAME].
func Section() config.Section {
	return config.Section{
		Name:  "ra",
		Named: true,
		Doc:   "Router advertisements and DHCPv6 on one interface.",
		New:   func(name string) any { return defaults(name) },
		Check: func(c *config.Checker, name string, s any) { check(c, name, s.(*Config)) },
	}
}

func defaults(name string) *Config {
	return &Config{
		Interface: name, Lifetime: 30 * time.Minute, MaxInterval: 10 * time.Minute, Preference: PreferenceMedium,
		HopLimit: 64, Preferred: 45 * time.Minute, Valid: 90 * time.Minute,
		DHCPv6: DHCPOff, DelegateBits: 56, Leases: "/var/lib/weft/" + name + ".leases",
	}
}

// From gives the section [ra.NAME] of f, nil if there is none.
func From(f *config.File, name string) *Config {
	c, _ := f.Get("ra", name).(*Config)
	return c
}
