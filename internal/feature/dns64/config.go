// Package dns64 is the name server for IPv6-only nodes (RFC 6147): it makes
// AAAA records of A records, so that names lead to a translator. It forwards
// what it does not know to recursive resolvers, and keeps what they answer.
package dns64

import (
	"net/netip"
	"time"

	"weft/internal/config"
)

// Config is [dns64].
type Config struct {
	Interfaces   []string       `toml:"interfaces" required:"true" example:"[\"lan\"]" doc:"The NAMEs of the interfaces on whose addresses the server answers, over UDP and TCP. It does not listen on others."`
	Forwarders   []string       `toml:"forwarders" required:"true" example:"[\"tls://192.0.2.53#dns.example.net\", \"2001:db8::53\"]" doc:"The recursive resolvers that are asked, in this order while they answer: an address, with a port if it is not 53 (\"[2001:db8::53]:5353\"); \"tcp://\" before it for TCP; \"tls://ADDRESS#NAME\" for DNS over TLS (RFC 7858), port 853, whose certificate must be NAME's. A resolver on this machine's loopback is one too."`
	Prefixes     []netip.Prefix `toml:"prefixes" ip:"6" example:"[\"64:ff9b::/96\"]" doc:"The translator's prefixes: each IPv4 address gets an IPv6 address under each of them. Default: the prefixes of the [nat64.NAME] sections that serve one of the interfaces."`
	Rules        []Rule         `toml:"rules" example:"[{ prefix = \"2001:db8:64::/96\", clients = [\"2001:db8:1::/64\"] }]" doc:"Instead of prefixes: which prefix for which clients and which IPv4 addresses. All matching rules apply."`
	Exclude      []netip.Prefix `toml:"exclude" ip:"6" example:"[\"2001:db8:bad::/48\"]" doc:"AAAA records with these addresses are ignored (RFC 6147 section 5.1.4), and IPv4-mapped ones (::ffff:0:0/96) always."`
	Clients      []netip.Prefix `toml:"clients" ip:"bare" example:"[\"2001:db8:1::/48\"]" doc:"The clients that may query. Default: the subnets of the interfaces, link-local addresses, and what [ra.NAME] delegates."`
	Outsiders    Outsiders      `toml:"deny_action" was:"strangers" enum:"refuse,ignore" example:"\"refuse\"" doc:"The answer to other clients over UDP: refuse sends REFUSED, ignore sends nothing. Their TCP connections are closed at once."`
	Port         int            `toml:"port" min:"1" max:"65535" example:"53" doc:"The port of the server."`
	TrustAD      bool           `toml:"trust_ad" example:"false" doc:"The forwarders validate DNSSEC and the connection to them is secure (loopback, or TLS): pass on their AD bit. With false AD is never set."`
	MixCase      bool           `toml:"use_caps_for_id" was:"mix_case" example:"true" doc:"Query in random upper and lower case and check it in the answer, against forged answers. If the case differs, query again over TCP."`
	PTR          bool           `toml:"ptr" example:"true" doc:"Answer reverse lookups under the prefixes with an alias to the IPv4 address's name (RFC 6147 section 5.3.1)."`
	CacheEntries int            `toml:"cache_entries" min:"0" max:"10000000" example:"20000" doc:"Maximum number of cached answers; 0: no cache. An answer takes a few hundred bytes, never more than 4 KiB of DNS data."`
	CacheMax     time.Duration  `toml:"cache_max_ttl" was:"cache_max" min:"1s" max:"168h" example:"\"24h\"" doc:"Maximum time to cache an answer, whatever its TTL."`
	NegativeMax  time.Duration  `toml:"cache_max_negative_ttl" was:"negative_max" min:"1s" max:"24h" example:"\"1h\"" doc:"Maximum time to cache a negative answer (RFC 2308)."`
	Prefetch     bool           `toml:"prefetch" example:"false" doc:"Renew entries in use when a tenth of their TTL is left, so that no client waits for it."`
	ServeStale   time.Duration  `toml:"serve_stale" min:"0s" max:"168h" example:"\"24h\"" doc:"How long an expired answer may be served when no forwarder answers (RFC 8767). \"0s\", the default: never."`
	Rate         int            `toml:"rate_limit" was:"rate" min:"0" max:"1000000" example:"200" doc:"Queries per second from one address on average; a burst may have twice as many. All addresses of an IPv6 /64 together, and all link-local ones of an interface, may have ten times as many. More are dropped. 0: no limit."`
}

// Rule makes one IPv6 address of an IPv4 address.
type Rule struct {
	Prefix  netip.Prefix   `toml:"prefix" required:"true" ip:"6" example:"\"2001:db8:64::/96\"" doc:"The translator's prefix (RFC 6052)."`
	Clients []netip.Prefix `toml:"clients" ip:"bare" example:"[\"2001:db8:1::/64\"]" doc:"The clients. Default: all clients."`
	Mapped  []netip.Prefix `toml:"mapped" ip:"4,bare" example:"[\"0.0.0.0/0\"]" doc:"The IPv4 addresses to translate. Default: all; under 64:ff9b::/96 only global ones (RFC 6052 section 3.1)."`
	Exclude []netip.Prefix `toml:"exclude" ip:"4,bare" example:"[\"10.0.0.0/8\"]" doc:"The IPv4 addresses to exclude."`
}

// Strangers is what becomes of questions of those who are not clients.
type Outsiders string

const (
	DenyRefuse Outsiders = "refuse"
	DenyIgnore Outsiders = "ignore"
)

// Section is what config.Load needs to read [dns64].
func Section() config.Section {
	return config.Section{
		Name:  "dns64",
		Doc:   "The name server for IPv6-only nodes (DNS64).",
		New:   func(string) any { return defaults() },
		Check: func(c *config.Checker, _ string, s any) { check(c, s.(*Config)) },
	}
}

func defaults() *Config {
	return &Config{
		Outsiders: DenyRefuse, Port: 53, MixCase: true, PTR: true,
		CacheEntries: 20000, CacheMax: 24 * time.Hour, NegativeMax: time.Hour,
		Rate: 200,
	}
}

// From returns the section [dns64] of f, nil if there is none.
func From(f *config.File) *Config {
	if !f.Given("dns64") {
		return nil
	}
	return f.Get("dns64", "").(*Config)
}
