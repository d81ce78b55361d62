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
	Interface    string         `toml:"interface" example:"\"lan\"" doc:"The NAME of the interface to advertise on. Default: NAME."`
	Lifetime     time.Duration  `toml:"lifetime" min:"0s" max:"9000s" example:"\"30m\"" doc:"The router lifetime: how long hosts use this router as a default router after each advertisement; \"0s\": it is no default router, the other options still apply (RFC 4861 section 6.2.1)."`
	MaxInterval  time.Duration  `toml:"max_interval" min:"4s" max:"1800s" example:"\"10m\"" doc:"Maximum time between two multicast advertisements; the minimum is a third of it."`
	Preference   Preference     `toml:"preference" enum:"low,medium,high" example:"\"medium\"" doc:"The router preference (RFC 4191)."`
	HopLimit     int            `toml:"hop_limit" min:"0" max:"255" example:"64" doc:"The hop limit for hosts; 0: unspecified."`
	MTU          int            `toml:"mtu" min:"0" max:"65535" example:"1492" doc:"The MTU of the link in bytes; 0: unspecified."`
	Prefixes     []Prefix       `toml:"prefixes" example:"[{ prefix = \"2001:db8:1::/64\" }]" doc:"The prefixes of the link, from which hosts form addresses. Default: the IPv6 subnets of length 64 of the interface."`
	Preferred    time.Duration  `toml:"preferred_lifetime" was:"preferred" min:"0s" max:"720h" example:"\"45m\"" doc:"The preferred lifetime of addresses after the last advertisement of their prefix (RFC 9096 section 3.3)."`
	Valid        time.Duration  `toml:"valid_lifetime" was:"valid" min:"0s" max:"720h" example:"\"90m\"" doc:"The valid lifetime of addresses."`
	Routes       []Route        `toml:"routes" example:"[{ prefix = \"2001:db8:9::/48\" }]" doc:"More prefixes that this router reaches, for hosts that have another default router (RFC 4191)."`
	DNS          []netip.Addr   `toml:"dns" ip:"6" example:"[\"2001:db8:1::1\"]" doc:"The name servers (RFC 8106). Default: this router, if [dns64] answers on the interface."`
	Search       []string       `toml:"search" example:"[\"example.net\"]" doc:"The DNS search list (RFC 8106)."`
	PREF64       []netip.Prefix `toml:"pref64" ip:"6" example:"[\"64:ff9b::/96\"]" doc:"The translator's prefixes (PREF64, RFC 8781). Default: those of the [nat64.NAME] sections that serve the interface; []: none."`
	Portal       string         `toml:"captive_portal" example:"\"https://pay.example.net/api\"" doc:"The URI of the captive portal's API (RFC 8908), announced by advertisements and by DHCPv6 (RFC 8910)."`
	DHCPv6       DHCPMode       `toml:"dhcpv6" enum:"off,stateless,stateful" example:"\"stateless\"" doc:"The DHCPv6 service: off; stateless: name servers and search domains; stateful: addresses and prefixes too."`
	Pool         []netip.Prefix `toml:"pool" ip:"6" example:"[\"2001:db8:1::d:0/112\"]" doc:"Stateful: the addresses to assign, parts of the link's prefixes."`
	Delegate     []netip.Prefix `toml:"delegate" ip:"6" example:"[\"2001:db8:100::/48\"]" doc:"Stateful: the prefixes from which routers behind this one get delegated prefixes. weft routes these to them."`
	DelegateBits int            `toml:"delegated_len" was:"delegate_bits" min:"1" max:"64" example:"56" doc:"The length of a delegated prefix."`
	Leases       string         `toml:"leases" example:"\"/var/lib/weft/lan.leases\"" doc:"Stateful: the file that keeps leases over a restart. Default: /var/lib/weft/NAME.leases."`
}

// Prefix is one prefix of the link.
type Prefix struct {
	Prefix        netip.Prefix  `toml:"prefix" required:"true" ip:"6" example:"\"2001:db8:1::/64\"" doc:"The prefix; hosts form addresses only of length 64."`
	NotOnLink     bool          `toml:"off_link" was:"not_on_link" example:"false" doc:"Hosts send to its addresses through the router, not directly (L flag clear)."`
	NotAutonomous bool          `toml:"no_autoconfig" was:"not_autonomous" example:"false" doc:"Hosts do not form addresses from it (A flag clear)."`
	Preferred     time.Duration `toml:"preferred_lifetime" was:"preferred" min:"0s" max:"720h" example:"\"45m\"" doc:"Like preferred_lifetime above."`
	Valid         time.Duration `toml:"valid_lifetime" was:"valid" min:"0s" max:"720h" example:"\"90m\"" doc:"Like valid_lifetime above."`
}

// Route is a prefix that this router reaches.
type Route struct {
	Prefix     netip.Prefix  `toml:"prefix" required:"true" ip:"6" example:"\"2001:db8:9::/48\"" doc:"The prefix."`
	Preference Preference    `toml:"preference" enum:"low,medium,high" example:"\"medium\"" doc:"The route preference. Default: medium."`
	Lifetime   time.Duration `toml:"lifetime" min:"0s" max:"720h" example:"\"30m\"" doc:"The route lifetime. Default: lifetime above, or max_interval times three if that is zero."`
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

// From returns the section [ra.NAME] of f, nil if there is none.
func From(f *config.File, name string) *Config {
	c, _ := f.Get("ra", name).(*Config)
	return c
}
