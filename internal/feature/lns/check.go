package lns

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"weft/internal/config"
	"weft/internal/ppp"
	"weft/internal/state"
	wirel2tp "weft/wire/l2tp"
)

func checkServer(c *config.Checker, name string, s *Config) {
	deviceName(c, Device(name))
	if len(s.Listen) == 0 {
		c.Error("listen", "is missing: LACs cannot reach this router", "name one of the router's own addresses")
	}
	for _, other := range c.File().Names("lns") {
		if other == name {
			break
		}
		for i, a := range s.Listen {
			if slices.Contains(From(c.File(), other).Listen, a) {
				c.Error(fmt.Sprintf("listen[%d]", i), fmt.Sprintf("%s is also one of lns.%s", a, other), "each section needs addresses of its own")
			}
		}
	}
	if len(s.LACs) == 0 {
		c.Error("lacs", "is missing: no LAC may set up a tunnel", `like [{ address = "198.51.100.0/24", secret = "between us" }]`)
	}
	for i, l := range s.LACs {
		if l.Hide && l.Secret == "" {
			c.Error(fmt.Sprintf("lacs[%d].hide_avps", i), "hidden AVPs need a secret (RFC 2661 section 4.3)", "give it a secret")
		}
	}
	if s.Gateway.IsValid() && slices.Contains(s.Listen, s.Gateway) {
		c.Warn("gateway", fmt.Sprintf("%s is also one of listen: subscribers that set up the tunnel themselves would send it into itself", s.Gateway), "take it out of a pool")
	}
	ipv4 := slices.ContainsFunc(s.Users, func(u User) bool { return u.IPv4.IsValid() }) || slices.ContainsFunc(s.Pools, func(p Pool) bool { return len(p.Addresses) > 0 })
	if !gatewayOf(s).IsValid() && ipv4 && !c.Broken("gateway") {
		c.Error("gateway", "there is no pool to take the router's own address on each session from", "set gateway")
	}
	checkForward(c, s)
	checkUsers(c, s.Users)
	checkPools(c, s)
	checkSpaces(c, s)
	for i, p := range s.PREF64 {
		if p.IsValid() && !slices.Contains([]int{32, 40, 48, 56, 64, 96}, p.Bits()) {
			c.Error(fmt.Sprintf("pref64[%d]", i), fmt.Sprintf("/%d is not a length that an IPv4 address can follow", p.Bits()), "/32, /40, /48, /56, /64 or /96: RFC 8781 section 4")
		}
	}
	c.Portal("captive_portal", s.Portal)
	if s.Portal != "" && len(s.WalledGarden) == 0 {
		c.Warn("captive_portal", "subscribers in the walled garden cannot reach the portal: walled_garden is empty", "add the portal's addresses and a name server's to walled_garden")
	}
	if len(s.Methods) == 0 && c.Given("authentication") {
		c.Warn("authentication", "sessions need no authentication", `like ["chap", "pap"]`)
	}
	if len(s.Users) == 0 && s.UsersFile == "" && len(s.RADIUS) == 0 && len(s.Forward) == 0 && !(c.Given("authentication") && len(s.Methods) == 0) {
		c.Error("", "has no subscribers", "add users, users_file or radius")
	}
	if len(s.Dynamic) > 0 && len(s.RADIUS) == 0 {
		c.Warn("dynamic_authorization", "has no effect without RADIUS servers", "add radius")
	}
}

// checkPools checks the pools that users name, and the ways in which they can log in.
func checkPools(c *config.Checker, s *Config) {
	for i, u := range s.Users {
		for _, m := range Mismatches(&u, s) {
			m.report(c, fmt.Sprintf("users[%d].", i))
		}
	}
}

func checkForward(c *config.Checker, s *Config) {
	for i, f := range s.Forward {
		at := fmt.Sprintf("forward[%d].", i)
		if _, err := ServerAddress(f.Server); err != nil && f.Server != "" {
			c.Error(at+"server", fmt.Sprintf("%q is not a server: %v", f.Server, err), `like "lns.example.net" or "192.0.2.1:1701"`)
		}
		if f.Hide && f.Secret == "" {
			c.Error(at+"hide_avps", "hidden AVPs need a secret (RFC 2661 section 4.3)", "give it a secret")
		}
		if strings.Contains(f.Realm, "@") {
			c.Error(at+"realm", fmt.Sprintf("%q has an @", f.Realm), fmt.Sprintf("write %q", f.Realm[strings.LastIndex(f.Realm, "@")+1:]))
		}
		for j, o := range s.Forward[:i] {
			if strings.EqualFold(o.Realm, f.Realm) && f.Realm != "" {
				c.Error(at+"realm", fmt.Sprintf("%q is also forward[%d]", f.Realm, j), "each realm goes to one server")
			}
		}
	}
}

// Mismatch is a conflict between a user and its section.
type Mismatch struct {
	Severity          state.Severity
	Key, What, Remedy string
}

func (m Mismatch) report(c *config.Checker, prefix string) {
	if m.Severity == state.Error {
		c.Error(prefix+m.Key, m.What, m.Remedy)
	} else {
		c.Warn(prefix+m.Key, m.What, m.Remedy)
	}
}

// Mismatches compares a user with its section.
func Mismatches(u *User, s *Config) []Mismatch {
	var list []Mismatch
	if u.Pool != "" && !slices.ContainsFunc(s.Pools, func(p Pool) bool { return p.Name == u.Pool }) {
		var names []string
		for _, p := range s.Pools {
			if p.Name != "" {
				names = append(names, p.Name)
			}
		}
		list = append(list, Mismatch{state.Error, "pool", fmt.Sprintf("there is no pool %q", u.Pool), config.Suggest(u.Pool, names)})
	}
	switch {
	case u.Hash == "":
	case !slices.Contains(s.Methods, ppp.MethodPAP):
		list = append(list, Mismatch{state.Error, "password_hash", "works with PAP only, and authentication has no pap", `authentication = ["pap"]`})
	case len(s.Methods) > 1:
		list = append(list, Mismatch{state.Warning, "password_hash", "subscribers that accept CHAP cannot log in: CHAP needs the password itself", `authentication = ["pap"]`})
	}
	return list
}

func checkUsers(c *config.Checker, users []User) {
	seen := map[string]int{}
	for i, u := range users {
		at := fmt.Sprintf("users[%d]", i)
		if j, ok := seen[u.Login]; ok && u.Login != "" {
			c.Error(at+".login", fmt.Sprintf("%q is also users[%d]", u.Login, j), "write each login once")
		}
		seen[u.Login] = i
		if u.Login == "" && c.Given(at+".login") && !c.Broken(at+".login") {
			c.Error(at+".login", "is empty", "the name that the subscriber sends")
		}
		switch {
		case u.Password == "" && u.Hash == "" && !c.Broken(at+".password") && !c.Broken(at+".password_hash"):
			c.Error(at, "has neither password nor password_hash", `like password = "a secret"`)
		case u.Password != "" && u.Hash != "":
			c.Error(at+".password_hash", "there is also a password", "keep one of the two")
		case u.Hash != "" && !bcryptHash(u.Hash):
			c.Error(at+".password_hash", "is not a bcrypt hash", "make one with htpasswd -nB LOGIN: it begins with $2y$")
		}
		if u.Prefix.IsValid() && u.Prefix.Bits() != 64 {
			c.Error(at+".prefix", fmt.Sprintf("%s is not a /64", u.Prefix), "hosts configure addresses (SLAAC) in a /64 only")
		}
	}
}

func deviceName(c *config.Checker, name string) {
	if len(name) > config.DeviceNameMax {
		c.Error("", fmt.Sprintf("its device would be called %q, which has %d characters: Linux allows %d", name, len(name), config.DeviceNameMax), "choose a shorter NAME")
	}
}

func checkClient(c *config.Checker, name string, s *ClientConfig) {
	deviceName(c, ClientDevice(name))
	if _, err := ServerAddress(s.Server); err != nil && s.Server != "" {
		c.Error("server", fmt.Sprintf("%q is not a server: %v", s.Server, err), `like "lns.example.net" or "192.0.2.1:1701"`)
	}
	if !s.IPv4 && !s.IPv6 {
		c.Error("", "requests neither IPv4 nor IPv6", "remove ipv4 = false or ipv6 = false")
	}
	if s.Login != "" && s.Password == "" && !c.Given("password") {
		c.Warn("login", "there is no password: a server that requires one rejects it", "set password")
	}
	if s.Password != "" && s.Login == "" && !c.Given("login") {
		c.Warn("password", "there is no login", "set login")
	}
	if s.Hide && s.Secret == "" {
		c.Error("hide_avps", "hidden AVPs need a secret (RFC 2661 section 4.3)", "set secret")
	}
	if len(s.Delegate) > 0 && !s.Prefix && !c.Given("prefix") {
		c.Error("delegate_to", "no prefix is requested", "add prefix_delegation = true")
	}
	if s.Prefix && !s.IPv6 {
		c.Error("prefix_delegation", "needs IPv6", "remove ipv6 = false")
	}
	c.Interfaces("delegate_to", s.Delegate)
	for i, family := range s.Default {
		if family != "4" && family != "6" {
			c.Error(fmt.Sprintf("default_route[%d]", i), fmt.Sprintf("%q is not an address family", family), `"4" or "6"`)
		}
	}
}

// ServerAddress splits a server's name and port.
func ServerAddress(server string) (hostPort string, err error) {
	if a, err := netip.ParseAddr(server); err == nil {
		return netip.AddrPortFrom(a, wirel2tp.Port).String(), nil
	}
	host, port := server, strconv.Itoa(wirel2tp.Port)
	if a, err := netip.ParseAddrPort(server); err == nil {
		return a.String(), nil
	}
	if before, after, ok := strings.Cut(server, ":"); ok {
		host, port = before, after
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("%q is not a port", port)
	}
	if host == "" || strings.ContainsAny(host, " /[]") {
		return "", fmt.Errorf("%q is not a host name", host)
	}
	return host + ":" + port, nil
}
