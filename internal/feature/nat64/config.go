// Package nat64 translates between IPv6 and IPv4 (RFC 7915), as a section of
// weft.toml asks for.
package nat64

import (
	"fmt"
	"net/netip"
	"slices"

	"weft/internal/config"
	"weft/internal/state"
)

// Config is [nat64.NAME].
type Config struct {
	Mode            Mode           `toml:"mode" required:"true" enum:"stateless,stateful,clat" example:"\"stateless\"" doc:"stateless: each IPv6 node has an IPv4 address of its own (SIIT, RFC 7915); no addresses are shared and no sessions are kept. stateful: IPv6 nodes share the IPv4 addresses of pools, by ports (NAT64, RFC 6146). clat: the client side of 464XLAT (RFC 6877): local IPv4 nodes reach IPv4 over an IPv6-only network and its translator."`
	Prefix          netip.Prefix   `toml:"prefix" ip:"6" example:"\"2001:db8:64::/96\"" doc:"The IPv6 prefix in which every IPv4 address has an IPv6 form (RFC 6052): of length 32, 40, 48, 56, 64 or 96. It may be left out if mappings are given."`
	Mappings        []Mapping      `toml:"mappings" example:"[{ ipv6 = \"2001:db8:3::/120\", ipv4 = \"203.0.113.0/24\" }]" doc:"Explicit address mappings (RFC 7757). They take precedence over the prefix, and the longest match over shorter ones."`
	Translatable    []netip.Prefix `toml:"translatable" ip:"4" example:"[\"198.51.100.0/24\"]" doc:"IPv4 prefixes of the IPv6 nodes whose addresses lie under prefix (IPv4-translatable addresses, RFC 6052 section 2.2). Default: what the IPv6 subnets of the interfaces here amount to, where those lie under prefix."`
	Interfaces      []string       `toml:"interfaces" required:"true" example:"[\"lan\", \"wan\"]" doc:"The NAMEs of the interfaces that the translator serves, on the IPv6 side and on the IPv4 side."`
	Device          string         `toml:"device" example:"\"nat64-main\"" doc:"The name of the translator's virtual device in ip link, routes and firewall rules. Default: nat64-NAME."`
	TCPMSSClamp     bool           `toml:"tcp_mss_clamp" example:"false" doc:"Lower the MSS of TCP connections to the MTU after translation, for paths that lose ICMP errors."`
	UDPZeroChecksum ZeroChecksum   `toml:"udp_zero_checksum" enum:"drop,compute" example:"\"compute\"" doc:"The action for UDP over IPv4 without checksum, which IPv6 requires: drop the packet, or compute the checksum. Default: compute if mode is stateful (RFC 6146 section 3.4), else drop (RFC 7915 section 4.5)."`
	LowestIPv6MTU   int            `toml:"lowest_ipv6_mtu" min:"1280" max:"65535" example:"1280" doc:"The smallest MTU of the IPv6 network in bytes: IPv4 packets that may be fragmented are fragmented to fit it (RFC 7915 section 4)."`
	ErrorSource     []netip.Addr   `toml:"error_source" ip:"4" example:"[\"203.0.113.8\"]" doc:"The IPv4 source addresses of ICMP errors from IPv6 routers without a mapping (RFC 6791)."`
	ErrorsPerSecond int            `toml:"errors_per_second" min:"0" max:"1000000" example:"100" doc:"Maximum number of ICMP errors of the translator per second; bursts may have twice as many. 0: none (RFC 7915 sections 4.4 and 5.4, RFC 4443 section 2.4 (f))."`
	Stateful
	CLATConfig
	CopyTrafficClass bool `toml:"copy_traffic_class" example:"true" doc:"Copy the IPv4 TOS to the IPv6 traffic class and back; with false it becomes zero (RFC 7915 sections 4.1 and 5.1)."`
}

// Mode is the kind of translation.
type Mode string

const (
	Stateless    Mode = "stateless"
	StatefulMode Mode = "stateful"
)

// ZeroChecksum is what becomes of UDP over IPv4 without a checksum.
type ZeroChecksum string

const (
	ZeroChecksumDrop    ZeroChecksum = "drop"
	ZeroChecksumCompute ZeroChecksum = "compute"
)

// Mapping is an explicit address mapping (RFC 7757 section 3.1). Both prefixes
// are masked.
type Mapping struct {
	IPv6 netip.Prefix `toml:"ipv6" required:"true" ip:"6,bare" example:"\"2001:db8:3::/120\"" doc:"IPv6 prefix, or one address."`
	IPv4 netip.Prefix `toml:"ipv4" required:"true" ip:"4,bare" example:"\"203.0.113.0/24\"" doc:"IPv4 prefix, or one address. Its suffix may not need more bits than the IPv6 prefix leaves (RFC 7757 section 3.2)."`
	Node Node         `toml:"node" enum:"ipv6,ipv4" example:"\"ipv6\"" doc:"The real address of the nodes: ipv6 (the default) for IPv6 nodes that IPv4 reaches, ipv4 for IPv4 nodes that IPv6 reaches."`
}

// Node is the family that the nodes of a mapping really speak.
type Node string

const (
	NodeIPv6 Node = "ipv6"
	NodeIPv4 Node = "ipv4"
)

// Section is what config.Load needs to read [nat64.NAME].
func Section() config.Section {
	return config.Section{
		Name:  "nat64",
		Roles: state.RoleTranslated,
		Named: true,
		Doc:   "A translator between IPv6 and IPv4.",
		New:   func(name string) any { return defaults(name) },
		Check: func(c *config.Checker, name string, s any) { check(c, name, s.(*Config)) },
	}
}

func defaults(name string) *Config {
	return &Config{
		Device:           "nat64-" + name,
		LowestIPv6MTU:    1280,
		ErrorsPerSecond:  100,
		CopyTrafficClass: true,
		Stateful:         statefulDefaults(),
		CLATConfig:       clatDefaults(),
	}
}

// From returns the section [nat64.NAME] of f, nil if there is none.
func From(f *config.File, name string) *Config {
	c, _ := f.Get("nat64", name).(*Config)
	return c
}

// ComputesUDPZero reports whether a missing UDP checksum is computed.
func (c *Config) ComputesUDPZero() bool {
	if c.UDPZeroChecksum == "" {
		return c.Mode == StatefulMode
	}
	return c.UDPZeroChecksum == ZeroChecksumCompute
}

// Nodes returns the IPv4 prefixes of the IPv6 nodes under c.Prefix: those of
// Translatable or, by default, those that the IPv6 subnets of c's interfaces in
// f amount to.
func (c *Config) Nodes(f *config.File) []netip.Prefix {
	if c.Mode == StatefulMode {
		return nil // nodes have no addresses of their own in IPv4
	}
	if len(c.Translatable) > 0 || c.Mode == CLAT {
		return slices.Clone(c.Translatable)
	}
	var found []netip.Prefix
	for _, name := range c.Interfaces {
		i := f.Interface(name)
		if i == nil {
			continue
		}
		for _, a := range i.Addresses {
			if p, ok := TranslatableIn(c.Prefix, a); ok && !slices.Contains(found, p) {
				found = append(found, p)
			}
		}
	}
	return found
}

func check(c *config.Checker, name string, s *Config) {
	if s.Mode == CLAT {
		checkModes(c, s)
		checkCLAT(c, name, s)
		return
	}
	onlyCLAT(c)
	checkPrefix(c, s)
	switch s.Mode {
	case StatefulMode:
		checkModes(c, s)
		checkStateful(c, s)
	case Stateless:
		checkModes(c, s)
		fallthrough
	default: // whatever the mode was meant to be
		checkMappings(c, s)
		checkTranslatable(c, s)
	}
	checkInterfaces(c, s)
	checkErrorSource(c, s)
	checkDevice(c, name, s)
	checkLocal(c, s)
	if s.Mode != StatefulMode && !c.Given("pools") {
		checkNodes(c, s)
	}
	checkOthers(c, name, s)
}

func checkInterfaces(c *config.Checker, s *Config) {
	if c.Given("interfaces") && len(s.Interfaces) == 0 {
		c.Error("interfaces", "is empty: the translator has no nodes to serve", "name at least one [interface.NAME]")
	}
	c.Interfaces("interfaces", s.Interfaces)
}

func checkErrorSource(c *config.Checker, s *Config) {
	for i, a := range s.ErrorSource {
		key := fmt.Sprintf("error_source[%d]", i)
		if !a.IsValid() {
			continue
		}
		if why, bad := unusable4(netip.PrefixFrom(a, 32)); bad {
			c.Error(key, fmt.Sprintf("%s is %s", a, why), "use an address of your own that no host has")
			continue
		}
		if slices.Contains(s.ErrorSource[:i], a) {
			c.Error(key, fmt.Sprintf("%s is listed twice", a), "take one of the two out")
		}
		for j, m := range s.Mappings {
			if m.IPv4.IsValid() && m.IPv4.Contains(a) {
				c.Error(key, fmt.Sprintf("%s belongs to an IPv6 node by mappings[%d]", a, j), "use an address that no node has")
			}
		}
	}
}

func checkDevice(c *config.Checker, name string, s *Config) {
	key := "device"
	if !c.Given(key) {
		key = ""
	}
	if what, remedy := config.DeviceNameFault(s.Device); what != "" {
		if key == "" || remedy == "" {
			remedy = fmt.Sprintf("set device to a name of at most %d characters", config.DeviceNameMax)
		}
		c.Error(key, what, remedy)
		return
	}
	for _, i := range c.File().Names("interface") {
		if c.File().Interface(i).Device == s.Device {
			c.Error(key, fmt.Sprintf("interface.%s is the device %q already", i, s.Device), "weft makes the translator's device: give it a name of its own")
			return
		}
	}
	for _, other := range c.File().Names("nat64") {
		if other == name {
			return
		}
		if From(c.File(), other).Device == s.Device {
			c.Error(key, fmt.Sprintf("nat64.%s has the device %q already", other, s.Device), "give each translator a device of its own")
			return
		}
	}
}
