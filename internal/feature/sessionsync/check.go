package sessionsync

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"weft/internal/config"
	"weft/internal/state"
)

func check(c *config.Checker, s *Config) {
	if !c.Given("") {
		return
	}
	if !c.Given("name") {
		c.Error("", "has no name: the others could not tell whose sessions these are", `add name = "left", or what this router is called`)
	} else if what := nameFault(s.Name); what != "" {
		c.Error("name", what, "at most 32 small letters, digits and hyphens")
	}
	checkTranslators(c, s)
	checkPeers(c, s)
	checkServers(c, s)
	checkKeys(c, s)
}

func nameFault(name string) string {
	other := func(r rune) bool { return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-') }
	if name == "" || len(name) > 32 || strings.ContainsFunc(name, other) || strings.Trim(name, "-") != name {
		return fmt.Sprintf("%q cannot be a router's name", name)
	}
	return ""
}

func checkTranslators(c *config.Checker, s *Config) {
	for i, name := range s.Translators {
		key := fmt.Sprintf("translators[%d]", i)
		if !slices.Contains(c.File().NamesFor(state.RoleTranslated), name) {
			c.Error(key, fmt.Sprintf("there is no [nat64.%s]", name), "name a section of this file")
		}
		if slices.Contains(s.Translators[:i], name) {
			c.Error(key, fmt.Sprintf("%s is listed twice", name), "take one of the two out")
		}
	}
}

func checkPeers(c *config.Checker, s *Config) {
	if c.Given("peers") && len(s.Peers) == 0 {
		c.Error("peers", "is empty: there is no peer to synchronise with", "name the other routers")
	}
	if len(s.Peers) > PeersMax {
		c.Error("peers", fmt.Sprintf("has %d routers", len(s.Peers)), fmt.Sprintf("at most %d", PeersMax))
	}
	seen := map[string]bool{}
	for i, p := range s.Peers {
		key := fmt.Sprintf("peers[%d]", i)
		what := nameFault(p.Name)
		switch {
		case what != "" && p.Name != "":
			c.Error(key+".name", what, "at most 32 small letters, digits and hyphens")
		case p.Name == s.Name && p.Name != "":
			c.Error(key+".name", fmt.Sprintf("%q is this router itself", p.Name), "name the others only")
		case seen[p.Name]:
			c.Error(key+".name", fmt.Sprintf("%q is listed twice", p.Name), "take one of the two out")
		}
		seen[p.Name] = true
		switch {
		case len(s.Cluster) > 0 && p.Address.IsValid():
			c.Error(key+".address", "means nothing beside cluster: the streams are there", "take it out, or cluster")
		case len(s.Cluster) == 0 && !p.Address.IsValid():
			c.Error(key, "has no address", `add address = "[2001:db8:ff::2]:4222", where its server listens`)
		}
	}
}

func checkServers(c *config.Checker, s *Config) {
	if len(s.Cluster) > 0 {
		if c.Given("listen") {
			c.Error("listen", "means nothing beside cluster: no server runs here", "take it out, or cluster")
		}
		checkUser(c, s)
	} else {
		if !c.Given("listen") {
			c.Error("", "has neither listen nor cluster: the peers could not read this router's sessions", `add listen = "[2001:db8:ff::1]:4222"`)
		}
		for _, key := range []string{"credentials", "user"} {
			if c.Given(key) {
				c.Error(key, "is for a cluster, and there is none", "take it out, or add cluster")
			}
		}
	}
	for i, text := range s.Cluster {
		key := fmt.Sprintf("cluster[%d]", i)
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || (u.Scheme != "tls" && u.Scheme != "nats") {
			c.Error(key, fmt.Sprintf("%q is not the URL of a NATS server", text), `like "tls://nats1.example.net:4222"`)
			continue
		}
		if u.User != nil {
			c.Error(key, "has a user or a password in it, and everybody may read this file", "write user and password_file, or credentials")
		}
		local, err := netip.ParseAddr(u.Hostname())
		if u.Scheme == "nats" && s.CA == "" && !(err == nil && local.IsLoopback()) {
			c.Error(key, "sessions and credentials would cross the network in the clear", `write "tls://"`)
		}
	}
}

// checkUser looks at what a cluster is shown.
func checkUser(c *config.Checker, s *Config) {
	switch {
	case c.Given("credentials") && c.Given("user"):
		c.Error("user", "is given beside credentials, which name a user themselves", "take one of the two out")
	case c.Given("password_file") != c.Given("user"):
		c.Error("", "has only one of user and password_file", "give both, or credentials")
	}
}

func checkKeys(c *config.Checker, s *Config) {
	if len(s.Cluster) > 0 {
		if (s.Certificate == "") != (s.Key == "") {
			c.Error("", "has only one of certificate and key", "give both")
		} else if s.Certificate != "" && s.CA == "" {
			c.Error("certificate", "is shown to servers that this router cannot tell from others", "add ca: the authority that signed theirs")
		}
		return
	}
	given := 0
	for _, file := range []string{s.CA, s.Certificate, s.Key} {
		if file != "" {
			given++
		}
	}
	if given != 0 && given != 3 {
		c.Error("", "has only some of ca, certificate and key", "give all three")
		return
	}
	if !s.Listen.IsValid() || given == 3 {
		return
	}
	switch {
	case !s.Listen.Addr().IsLoopback():
		c.Error("listen", fmt.Sprintf("%s can be reached from outside, and there are no certificates", s.Listen), "add ca, certificate and key; docs/features/session-sync.md says how to make them")
	case s.PasswordFile == "":
		c.Error("listen", "there are neither certificates nor a password: everybody on this machine could read the sessions", "add ca, certificate and key, or password_file")
	}
}

// Plan finds what keeps [session_sync] from working here. It wants nothing in the
// kernel. It is pure. stateful are the translators that can be shared.
func Plan(f *config.File, stateful []string) []state.Problem {
	c := From(f)
	if c == nil {
		return nil
	}
	var problems []state.Problem
	add := func(path, what, remedy string) {
		problems = append(problems, state.Problem{Pos: f.Position(path), Path: path, What: what, Remedy: remedy})
	}
	if len(stateful) == 0 {
		add("session_sync", "there is no stateful translator, and others have nothing to share", `take the section out, or add [nat64.main] with mode = "stateful"`)
		return problems
	}
	for i, name := range c.Translators {
		if slices.Contains(f.NamesFor(state.RoleTranslated), name) && !slices.Contains(stateful, name) {
			add(fmt.Sprintf("session_sync.translators[%d]", i), fmt.Sprintf("nat64.%s is not stateful: it has no sessions", name), "take it out: every router translates alike")
		}
	}
	return problems
}
