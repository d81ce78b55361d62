// Package route forwards packets by weft's own tables, past the kernel's stack,
// and keeps those tables what the kernel's are: the routes stay in the kernel,
// where routing daemons and `ip route` put them. A section [route] of weft.toml
// asks for it.
package route

import (
	"weft/fib"
	"weft/internal/config"
	"weft/internal/state"
)

// Config is [route].
type Config struct {
	Interfaces   []string `toml:"interfaces" required:"true" example:"[\"lan\", \"wan\"]" doc:"The NAMEs of the interfaces where arriving packets are routed by weft itself. They may leave by any Ethernet device, VLAN interface or bridge. These packets bypass netfilter, connection tracking, policy routing and traffic control."`
	IPv4Prefixes int      `toml:"ipv4_prefixes" min:"1000" max:"16000000" example:"1200000" doc:"Maximum number of IPv4 prefixes, 12 bytes each besides 4 MiB. The memory is allocated at once, and a second time while a restart builds the new table."`
	IPv6Prefixes int      `toml:"ipv6_prefixes" min:"1000" max:"4000000" example:"300000" doc:"Maximum number of IPv6 prefixes, 48 bytes each besides 4 MiB. A host route takes up to 60 bytes, most others 16."`
}

// Section is what config.Load needs to read [route].
func Section() config.Section {
	return config.Section{
		Name:  "route",
		Roles: state.RoleRouted,
		Doc:   "Routing by weft's own tables, a mirror of the kernel's, bypassing the stack. Without the section the kernel forwards.",
		New:   func(string) any { return &Config{IPv4Prefixes: 1_200_000, IPv6Prefixes: 300_000} },
		Check: func(c *config.Checker, _ string, s any) { check(c, s.(*Config)) },
	}
}

// From returns the section [route] of f, nil if there is none.
func From(f *config.File) *Config {
	if !f.Given("route") {
		return nil
	}
	c, _ := f.Get("route", "").(*Config)
	return c
}

func check(c *config.Checker, s *Config) {
	if !c.File().Given("route") {
		return
	}
	if c.Given("interfaces") && len(s.Interfaces) == 0 {
		c.Error("interfaces", "is empty: nothing would be routed", "name at least one [interface.NAME], or leave [route] out")
	}
	c.Interfaces("interfaces", s.Interfaces)
	if !c.File().Router().Forwarding {
		c.Warn("", "the router does not switch forwarding on, and weft routes also what the kernel would not", "set forwarding = true in [router], or leave [route] out")
	}
}

// Words of the tables for so many prefixes, beside the least that a table has.
// A full table of 2024 takes 1.3 words for a prefix of IPv4 and 4 for one of
// IPv6; host routes of IPv6 take 15. Blocks that wait for a grace period come
// on top.
const (
	wordsPerPrefix4 = 3
	wordsPerPrefix6 = 12
)

func (c *Config) words4() int { return fib.MinWords4 + wordsPerPrefix4*c.IPv4Prefixes }
func (c *Config) words6() int { return fib.MinWords6 + wordsPerPrefix6*c.IPv6Prefixes }
