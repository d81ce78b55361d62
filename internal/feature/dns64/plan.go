package dns64

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"weft/internal/config"
	"weft/internal/state"
)

// Plan finds what keeps [dns64] from working here. It wants nothing in the
// kernel. It is pure.
func Plan(f *config.File, facts state.Facts) state.Part {
	c := From(f)
	if c == nil {
		return state.Part{Feature: "dns64"}
	}
	var problems []state.Problem
	var claims []state.Claim
	add := func(severity state.Severity, path, what, remedy string) {
		problems = append(problems, state.Problem{Severity: severity, Pos: f.Position(path), Path: path, What: what, Remedy: remedy})
	}
	if len(rules(f, c, facts)) == 0 {
		add(state.Error, "dns64", "there is no prefix to make addresses of: no [nat64.NAME] with a prefix serves its interfaces", `add prefixes = ["64:ff9b::/96"], or the translator's section`)
	}
	listens := addresses(f, c, facts)
	for i, text := range c.Forwarders {
		to, what, _ := ParseForwarder(text)
		if what != "" {
			continue
		}
		if a := to.Address.Addr(); !a.IsLoopback() {
			path := fmt.Sprintf("dns64.forwarders[%d]", i)
			claims = append(claims, state.Claim{Prefix: netip.PrefixFrom(a, a.BitLen()), For: state.ClaimPeer, Section: "dns64", Path: path, Pos: f.Position(path)})
		}
		if slices.Contains(listens, to.Address) && to.Transport != TLS {
			if _, known := ownAddress(f, c, to); !known { // else check has said so
				add(state.Error, fmt.Sprintf("dns64.forwarders[%d]", i), fmt.Sprintf("%s is this router itself: questions would go round in circles", to), "name another resolver")
			}
		}
	}
	return state.Part{Feature: "dns64", Claims: claims, Problems: problems}
}

// Interfaces returns the NAMEs of the interfaces that [dns64] of f answers on.
func Interfaces(f *config.File) []string {
	if c := From(f); c != nil {
		return c.Interfaces
	}
	return nil
}

// Settings is what the service needs to know, with all defaults worked out.
type Settings struct {
	Listen     []netip.AddrPort // link-local addresses have their device as zone
	Forwarders []Forwarder
	Rules      []Rule
	Exclude    []netip.Prefix
	Clients    []netip.Prefix
	Ignore     bool // strangers get no answer
	TrustAD    bool
	MixCase    bool
	PTR        bool
	Cache      CacheSettings
	Rate       int
}

// CacheSettings bound what is kept.
type CacheSettings struct {
	Entries          int
	Max, NegativeMax time.Duration
	Stale            time.Duration
	Prefetch         bool
}

// SettingsOf works out the settings of [dns64]; ok is false if f has none.
func SettingsOf(f *config.File, facts state.Facts) (s Settings, ok bool) {
	c := From(f)
	if c == nil {
		return s, false
	}
	s = Settings{
		Listen: addresses(f, c, facts), Rules: rules(f, c, facts), Exclude: c.Exclude,
		Ignore: c.Outsiders == DenyIgnore, TrustAD: c.TrustAD, MixCase: c.MixCase, PTR: c.PTR, Rate: c.Rate,
		Cache: CacheSettings{c.CacheEntries, c.CacheMax, c.NegativeMax, c.ServeStale, c.Prefetch},
	}
	for _, text := range c.Forwarders {
		if to, what, _ := ParseForwarder(text); what == "" && (!slices.Contains(s.Listen, to.Address) || to.Transport == TLS) {
			s.Forwarders = append(s.Forwarders, to)
		}
	}
	s.Clients = c.Clients
	if len(s.Clients) == 0 {
		s.Clients = append(subnets(f, c, facts), facts.Delegated...)
	}
	return s, true
}

// rules returns the rules by which addresses are made: those of the section, or
// its prefixes, or those of the translators that serve one of its interfaces.
func rules(f *config.File, c *Config, facts state.Facts) []Rule {
	list := slices.Clone(c.Rules)
	for _, p := range c.Prefixes {
		list = append(list, Rule{Prefix: p})
	}
	if len(list) > 0 {
		return list
	}
	for _, t := range facts.Prefixes64 {
		serves := slices.ContainsFunc(t.Interfaces, func(name string) bool { return slices.Contains(c.Interfaces, name) })
		known := slices.ContainsFunc(list, func(r Rule) bool { return r.Prefix == t.Prefix })
		if serves && !known {
			list = append(list, Rule{Prefix: t.Prefix})
		}
	}
	return list
}

// own gives the addresses of the interfaces, those of the file and those that
// the devices have.
func own(f *config.File, c *Config, facts state.Facts, each func(device string, a netip.Prefix)) {
	for _, name := range c.Interfaces {
		i := f.Interface(name)
		if i == nil {
			continue
		}
		l, _ := facts.Link(i.Device)
		for _, a := range slices.Concat(i.Addresses, l.Addresses) {
			each(i.Device, a)
		}
	}
}

func addresses(f *config.File, c *Config, facts state.Facts) []netip.AddrPort {
	var list []netip.AddrPort
	own(f, c, facts, func(device string, p netip.Prefix) {
		a := p.Addr()
		if a.IsLinkLocalUnicast() && a.Is6() {
			a = a.WithZone(device)
		}
		list = append(list, netip.AddrPortFrom(a, uint16(c.Port)))
	})
	slices.SortFunc(list, func(a, b netip.AddrPort) int { return cmp.Or(a.Compare(b)) })
	return slices.Compact(list)
}

func subnets(f *config.File, c *Config, facts state.Facts) []netip.Prefix {
	list := []netip.Prefix{netip.MustParsePrefix("fe80::/10")}
	own(f, c, facts, func(_ string, p netip.Prefix) {
		if m := p.Masked(); !slices.Contains(list, m) && !p.Addr().IsLinkLocalUnicast() {
			list = append(list, m)
		}
	})
	return list
}
