package dns64

import (
	"fmt"
	"net/netip"
	"slices"

	"weft/internal/config"
	"weft/internal/translate"
)

func check(c *config.Checker, s *Config) {
	if !c.Given("") {
		return
	}
	checkInterfaces(c, s)
	checkForwarders(c, s)
	if len(s.Prefixes) > 0 && len(s.Rules) > 0 {
		c.Error("rules", "stands beside prefixes: which of the two is meant?", "write each prefix as a rule, or keep prefixes alone")
	}
	for i, p := range s.Prefixes {
		checkPrefix(c, fmt.Sprintf("prefixes[%d]", i), p)
		if slices.Contains(s.Prefixes[:i], p) {
			c.Error(fmt.Sprintf("prefixes[%d]", i), fmt.Sprintf("%s is listed twice", p), "take one of the two out")
		}
	}
	for i, r := range s.Rules {
		checkPrefix(c, fmt.Sprintf("rules[%d].prefix", i), r.Prefix)
	}
	if s.TrustAD {
		checkTrust(c, s)
	}
}

func checkInterfaces(c *config.Checker, s *Config) {
	if c.Given("interfaces") && len(s.Interfaces) == 0 {
		c.Error("interfaces", "is empty: no client would get an answer", "name at least one [interface.NAME]")
	}
	c.Interfaces("interfaces", s.Interfaces)
}

func checkForwarders(c *config.Checker, s *Config) {
	if c.Given("forwarders") && len(s.Forwarders) == 0 {
		c.Error("forwarders", "is empty: no name could be resolved", "name at least one recursive resolver")
	}
	var seen []Forwarder
	for i, text := range s.Forwarders {
		key := fmt.Sprintf("forwarders[%d]", i)
		f, what, remedy := ParseForwarder(text)
		switch {
		case what != "":
			c.Error(key, what, remedy)
			continue
		case slices.Contains(seen, f):
			c.Error(key, fmt.Sprintf("%s is listed twice", f), "take one of the two out")
		}
		if owner, ours := ownAddress(c.File(), s, f); ours {
			c.Error(key, fmt.Sprintf("%s is interface.%s: questions would go round in circles", f, owner), "name another resolver; one on this machine listens on loopback, like \"127.0.0.1:5353\"")
		}
		seen = append(seen, f)
	}
}

// ownAddress tells on which of its interfaces the name server itself has f's
// address and port.
func ownAddress(f *config.File, s *Config, to Forwarder) (string, bool) {
	for _, name := range s.Interfaces {
		i := f.Interface(name)
		if i == nil || int(to.Address.Port()) != s.Port || to.Transport == TLS {
			continue
		}
		for _, a := range i.Addresses {
			if a.Addr() == to.Address.Addr() {
				return name, true
			}
		}
	}
	return "", false
}

func checkPrefix(c *config.Checker, key string, p netip.Prefix) {
	if !p.IsValid() {
		return
	}
	switch p.Bits() {
	case 32, 40, 48, 56, 64, 96:
	default:
		c.Error(key, fmt.Sprintf("/%d is not a length that an IPv4 address can follow", p.Bits()), "/32, /40, /48, /56, /64 or /96: RFC 6052 section 2.2")
		return
	}
	known := translate.WellKnownPrefix()
	switch {
	case p.Overlaps(known) && p != known:
		c.Error(key, fmt.Sprintf("%s is not the well-known prefix, but overlaps it", p), fmt.Sprintf("write %q, or a prefix of your own", known))
	case p.Bits() == 96 && p.Addr().As16()[8] != 0:
		c.Error(key, fmt.Sprintf("bits 64 to 71 of %s are not zero", p), "RFC 6052 section 2.2")
	}
}

// checkTrust warns of a word that anybody on the way can forge.
func checkTrust(c *config.Checker, s *Config) {
	for i, text := range s.Forwarders {
		f, what, _ := ParseForwarder(text)
		if what == "" && f.Transport != TLS && !f.Address.Addr().IsLoopback() {
			c.Warn(fmt.Sprintf("forwarders[%d]", i), fmt.Sprintf("%s is asked in the clear, and trust_ad believes what comes back", f), "ask it over TLS, or run a validating resolver on loopback")
		}
	}
}
