// Package guard drops what must not get in before the stack has had work with
// it: listed sources, sources that cannot be where they say they are, and more
// connections or ICMP messages than are allowed. Sections [guard.NAME] of
// weft.toml ask for it by interface, [block] holds the list of all.
package guard

import (
	"fmt"
	"net/netip"
	"strings"

	"weft/internal/config"
	"weft/internal/state"
)

// Config is [guard.NAME].
type Config struct {
	Interfaces    []string    `toml:"interfaces" required:"true" example:"[\"wan\"]" doc:"The NAMEs of the guarded interfaces: packets that arrive there, addressed to the router, are filtered."`
	ReversePath   ReversePath `toml:"reverse_path" enum:"off,loose,strict" example:"\"strict\"" doc:"Reverse-path check (RFC 2827, RFC 3704). strict: the kernel's route to the source must lead to this interface; for subscribers and networks with one path. loose: drop if there is no route at all, or a blackhole route (RFC 5635); for uplinks with several paths."`
	Bogons        bool        `toml:"bogons" example:"true" doc:"Drop bogon sources: private, reserved and documentation prefixes. For uplinks, not for networks that use them."`
	SYNPerSource  int         `toml:"syn_per_source" min:"0" max:"10000000" example:"50" doc:"New TCP connections per second from one source; 0: no limit. A source is an IPv4 address or an IPv6 /64."`
	SYNTotal      int         `toml:"syn_total" min:"0" max:"100000000" example:"2000" doc:"New TCP connections per second from all sources together on one interface; 0: no limit."`
	ICMPPerSource int         `toml:"icmp_per_source" min:"0" max:"10000000" example:"20" doc:"ICMP messages per second from one source; 0: no limit. Neighbour discovery is never limited."`
	ICMPTotal     int         `toml:"icmp_total" min:"0" max:"100000000" example:"1000" doc:"ICMP messages per second from all sources together on one interface; 0: no limit."`
	Burst         int         `toml:"burst" min:"1" max:"100" example:"2" doc:"The burst of each rate, in seconds."`
}

// ReversePath is a check of the way back to a source.
type ReversePath string

const (
	ReverseOff    ReversePath = "off"
	ReverseLoose  ReversePath = "loose"
	ReverseStrict ReversePath = "strict"
)

// Block is [block].
type Block struct {
	Prefixes []netip.Prefix `toml:"prefixes" example:"[\"192.0.2.0/24\", \"2001:db8:bad::/48\"]" doc:"Sources that are dropped on every guarded interface. weft block adds others while the router runs."`
	Except   []netip.Prefix `toml:"except" example:"[\"192.0.2.53/32\"]" doc:"Sources that are accepted although a shorter prefix is blocked, or is a bogon."`
	Files    []string       `toml:"files" example:"[\"/etc/weft/block.txt\"]" doc:"Files with more prefixes or addresses, one per line; # and ; start a comment. A file that changes is read again."`
	Sets     []string       `toml:"sets" example:"[\"inet filter banned\"]" doc:"nftables sets whose addresses are blocked too, as FAMILY TABLE SET. weft follows changes of a set."`
}

// Sections is what config.Load needs to read [guard.NAME] and [block].
func Sections() []config.Section {
	return []config.Section{
		{
			Name:  "guard",
			Roles: state.RoleGuarded,
			Named: true,
			Doc:   "An ingress filter for some interfaces: it drops unwanted packets before anything else processes them.",
			New:   func(string) any { return &Config{ReversePath: ReverseOff, Burst: 2} },
			Check: func(c *config.Checker, name string, s any) { check(c, name, s.(*Config)) },
		},
		{
			Name:  "block",
			Doc:   "The block list of all guarded interfaces.",
			New:   func(string) any { return &Block{} },
			Check: func(c *config.Checker, _ string, s any) { checkBlock(c, s.(*Block)) },
		},
	}
}

// From returns the section [guard.NAME] of f, nil if there is none.
func From(f *config.File, name string) *Config {
	c, _ := f.Get("guard", name).(*Config)
	return c
}

// BlockOf gives [block] of f, with defaults where the file is silent.
func BlockOf(f *config.File) *Block {
	b, _ := f.Get("block", "").(*Block)
	if b == nil {
		return &Block{}
	}
	return b
}

func check(c *config.Checker, name string, s *Config) {
	if c.Given("interfaces") && len(s.Interfaces) == 0 {
		c.Error("interfaces", "is empty: nothing would be guarded", "name at least one [interface.NAME]")
	}
	c.Interfaces("interfaces", s.Interfaces)
	for i, in := range s.Interfaces {
		for _, other := range c.File().Names("guard") {
			if o := From(c.File(), other); o != nil && other < name && holds(o.Interfaces, in) {
				c.Error(fmt.Sprintf("interfaces[%d]", i), fmt.Sprintf("%q is guarded by [guard.%s] already", in, other), "an interface has one guard")
			}
		}
	}
	if !c.Broken("reverse_path") && s.ReversePath == ReverseOff && !s.Bogons && s.rates() == ([state.GuardRates]state.GuardRate{}) && !c.File().Given("block") {
		c.Warn("", "drops only what weft block add blocks", "set reverse_path, bogons or syn_total, or add a section [block]")
	}
	for _, pair := range []struct {
		key, total string
		one, all   int
	}{{"syn_per_source", "syn_total", s.SYNPerSource, s.SYNTotal}, {"icmp_per_source", "icmp_total", s.ICMPPerSource, s.ICMPTotal}} {
		if pair.one > pair.all && pair.all > 0 {
			c.Error(pair.key, fmt.Sprintf("%d is more than all sources together have, %s = %d", pair.one, pair.total, pair.all), "no source may have more than all")
		}
	}
}

func holds(names []string, name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return false
}

func checkBlock(c *config.Checker, b *Block) {
	if !c.File().Given("block") {
		return
	}
	for i, p := range b.Prefixes {
		if p.IsValid() && p.Bits() == 0 {
			c.Error(fmt.Sprintf("prefixes[%d]", i), fmt.Sprintf("%s contains all addresses", p), "write a longer prefix; a default policy is the firewall's")
		}
		for j, e := range b.Except {
			if p.Masked() == e.Masked() {
				c.Error(fmt.Sprintf("except[%d]", j), fmt.Sprintf("%s is blocked as well, prefixes[%d]", e, i), "take one of the two out")
			}
		}
	}
	for i, file := range b.Files {
		if !strings.HasPrefix(file, "/") {
			c.Error(fmt.Sprintf("files[%d]", i), fmt.Sprintf("%q does not begin with /", file), "name the file from the root")
		}
	}
	for i, set := range b.Sets {
		parts := strings.Fields(set)
		if len(parts) != 3 || parts[0] != "ip" && parts[0] != "ip6" && parts[0] != "inet" {
			c.Error(fmt.Sprintf("sets[%d]", i), fmt.Sprintf("%q is not FAMILY TABLE SET", set), `write it like "inet filter banned"; the family is ip, ip6 or inet`)
		}
	}
	if len(c.File().Names("guard")) == 0 {
		c.Warn("", "no interface is guarded, so nothing is dropped", `add [guard.NAME] with interfaces = ["wan"]`)
	}
}

// rates are those of the section as the programs know them.
func (s *Config) rates() (rates [state.GuardRates]state.GuardRate) {
	for i, n := range [state.GuardRates]int{s.SYNPerSource, s.SYNTotal, s.ICMPPerSource, s.ICMPTotal} {
		if n > 0 {
			rates[i] = state.GuardRate{PerSecond: n, Burst: n * s.Burst}
		}
	}
	return rates
}
