package ra

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"weft/internal/config"
	"weft/internal/state"
)

// Plan finds what keeps the [ra.NAME] sections from working here. They want
// nothing in the kernel. It is pure.
func Plan(f *config.File, facts state.Facts) state.Part {
	var problems []state.Problem
	for _, name := range f.Names("ra") {
		s, ok := SettingsOf(f, facts, name)
		if !ok {
			continue
		}
		warn := func(path, what, remedy string) {
			path = "ra." + name + path
			problems = append(problems, state.Problem{Severity: state.Warning, Pos: f.Position(path), Path: path, What: what, Remedy: remedy})
		}
		if len(s.Prefixes) == 0 && len(From(f, name).Pool) == 0 {
			warn("", fmt.Sprintf("interface.%s has no IPv6 subnet of length 64: hosts get no addresses", From(f, name).Interface), "give it an address, or add prefixes")
		}
		for i, p := range From(f, name).Pool {
			onLink := slices.ContainsFunc(s.Prefixes, func(q AnnouncedPrefix) bool { return within(p, q.Prefix) })
			if !onLink {
				warn(fmt.Sprintf(".pool[%d]", i), fmt.Sprintf("%s is in no prefix of the link", p), "take addresses out of prefixes")
			}
		}
	}
	return state.Part{Feature: "ra", Claims: claims(f), Problems: problems}
}

// claims are the spaces that the sections delegate out of.
func claims(f *config.File) (list []state.Claim) {
	for _, name := range f.Names("ra") {
		for i, p := range From(f, name).Delegate {
			path := fmt.Sprintf("ra.%s.delegate[%d]", name, i)
			list = append(list, state.Claim{Prefix: p, For: state.ClaimGiven, Section: "ra." + name, Path: path, Pos: f.Position(path)})
		}
	}
	return list
}

// Delegated returns the spaces out of which the [ra.NAME] sections delegate.
func Delegated(f *config.File) []netip.Prefix {
	var list []netip.Prefix
	for _, name := range f.Names("ra") {
		list = append(list, From(f, name).Delegate...)
	}
	return list
}

func within(inner, outer netip.Prefix) bool {
	return outer.Bits() <= inner.Bits() && outer.Overlaps(inner)
}

// Settings is what is said on a link, with all defaults worked out.
type Settings struct {
	Name       string // of the section
	Device     string
	MAC        [6]byte
	Lifetime   time.Duration
	Interval   time.Duration // the longest between two
	Preference Preference
	HopLimit   int
	Managed    bool // flag M
	Other      bool // flag O
	MTU        int
	Prefixes   []AnnouncedPrefix
	Routes     []Route
	DNS        []netip.Addr
	Search     []string
	PREF64     []netip.Prefix
	Portal     string // the captive portal's URI
	// For DHCPv6.
	DHCPv6       DHCPMode
	Pool         []netip.Prefix
	Delegate     []netip.Prefix
	DelegateBits int
	Preferred    time.Duration
	Valid        time.Duration
	Leases       string
	Own          []netip.Addr // the router's addresses on the link, never given out
	Received     []Received   // delegated to this router
}

// Received is a prefix that another router has delegated to this one. What is announced or
// given out of it ends no later (RFC 8415 section 6.3, RFC 9096 section 3.3).
type Received struct {
	Prefix    netip.Prefix `json:"prefix"`
	Preferred time.Time    `json:"preferred"`
	Valid     time.Time    `json:"valid"`
}

// AnnouncedPrefix is a prefix as it is announced.
type AnnouncedPrefix struct {
	Prefix     netip.Prefix  `json:"prefix"`
	OnLink     bool          `json:"on_link"`
	Autonomous bool          `json:"autonomous"`
	Preferred  time.Duration `json:"preferred_ns"`
	Valid      time.Duration `json:"valid_ns"`
}

// SettingsOf works out the settings of [ra.NAME]; ok is false if its interface
// is not there.
func SettingsOf(f *config.File, facts state.Facts, name string) (s Settings, ok bool) {
	c := From(f, name)
	i := f.Interface(c.Interface)
	if i == nil {
		return s, false
	}
	l, there := facts.Link(i.Device)
	s = Settings{
		Name: name, Device: i.Device, MAC: l.MAC,
		Lifetime: c.Lifetime, Interval: c.MaxInterval, Preference: c.Preference, HopLimit: c.HopLimit,
		Managed: c.DHCPv6 == DHCPStateful && len(c.Pool) > 0, Other: c.DHCPv6 != DHCPOff, MTU: c.MTU,
		DNS: c.DNS, Search: c.Search, PREF64: c.PREF64, Portal: c.Portal,
		DHCPv6: c.DHCPv6, Pool: c.Pool, Delegate: c.Delegate, DelegateBits: c.DelegateBits,
		Preferred: c.Preferred, Valid: c.Valid, Leases: c.Leases,
	}
	addresses := slices.Concat(i.Addresses, l.Addresses)
	for _, a := range addresses {
		if a.Addr().Is6() && !slices.Contains(s.Own, a.Addr()) {
			s.Own = append(s.Own, a.Addr())
		}
	}
	s.Prefixes = prefixes(c, addresses)
	s.Routes = routes(c)
	s.Received = received(facts)
	if !f.Given("ra."+name+".dns") && slices.Contains(facts.NameServer, c.Interface) {
		s.DNS = nameServer(s.Own)
	}
	if !f.Given("ra." + name + ".pref64") {
		s.PREF64 = translators(c.Interface, facts)
	}
	return s, there
}

func prefixes(c *Config, addresses []netip.Prefix) []AnnouncedPrefix {
	var list []AnnouncedPrefix
	for _, p := range c.Prefixes {
		a := AnnouncedPrefix{p.Prefix, !p.NotOnLink, !p.NotAutonomous, p.Preferred, p.Valid}
		if a.Valid == 0 {
			a.Valid = c.Valid
		}
		if a.Preferred == 0 {
			a.Preferred = min(c.Preferred, a.Valid)
		}
		list = append(list, a)
	}
	if len(list) > 0 {
		return list
	}
	for _, a := range addresses {
		p := a.Masked()
		known := slices.ContainsFunc(list, func(q AnnouncedPrefix) bool { return q.Prefix == p })
		if a.Addr().Is6() && a.Bits() == 64 && !a.Addr().IsLinkLocalUnicast() && !known {
			list = append(list, AnnouncedPrefix{p, true, true, c.Preferred, c.Valid})
		}
	}
	return list
}

// received returns the prefixes that L2TP servers have delegated, of which the end is known.
func received(facts state.Facts) []Received {
	var list []Received
	for _, name := range slices.Sorted(maps.Keys(facts.Clients)) {
		if c := facts.Clients[name]; c.Up && c.Delegated.IsValid() && !c.Valid.IsZero() {
			list = append(list, Received{c.Delegated, c.Preferred, c.Valid})
		}
	}
	return list
}

func routes(c *Config) []Route {
	list := slices.Clone(c.Routes)
	for i := range list {
		if list[i].Preference == "" {
			list[i].Preference = PreferenceMedium
		}
		if list[i].Lifetime == 0 {
			list[i].Lifetime = max(c.Lifetime, 3*c.MaxInterval)
		}
	}
	return list
}

// nameServer returns the address by which hosts of the link ask this router:
// the first global one, else the link-local one.
func nameServer(own []netip.Addr) []netip.Addr {
	for _, local := range []bool{false, true} {
		for _, a := range own {
			if a.IsLinkLocalUnicast() == local {
				return []netip.Addr{a}
			}
		}
	}
	return nil
}

// translators returns the prefixes of the translators that serve an interface.
func translators(name string, facts state.Facts) []netip.Prefix {
	var list []netip.Prefix
	for _, t := range facts.Prefixes64 {
		if slices.Contains(t.Interfaces, name) && !slices.Contains(list, t.Prefix) {
			list = append(list, t.Prefix)
		}
	}
	return list
}
