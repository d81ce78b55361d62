package access

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"weft/internal/config"
	"weft/wire/l2tp"
)

func checkServer(c *config.Checker, name string, s *Config) {
	deviceName(c, Device(name))
	if len(s.Listen) == 0 {
		c.Error("listen", "there is no address at which LACs reach this router", "name one of the router's own addresses")
	}
	for _, other := range c.File().Names("access") {
		if other == name {
			break
		}
		for i, a := range s.Listen {
			if slices.Contains(From(c.File(), other).Listen, a) {
				c.Error(fmt.Sprintf("listen[%d]", i), fmt.Sprintf("%s is also one of access.%s", a, other), "each section needs addresses of its own")
			}
		}
	}
	if len(s.LACs) == 0 {
		c.Error("lacs", "nobody may set up tunnels", `like [{ address = "198.51.100.0/24", secret = "between us" }]`)
	}
	for i, l := range s.LACs {
		if l.Hide && l.Secret == "" {
			c.Error(fmt.Sprintf("lacs[%d].hide", i), "there is nothing to encipher with", "give it a secret")
		}
	}
	if !c.Given("gateway") && !slices.ContainsFunc(s.Listen, netip.Addr.Is4) && len(s.Pools) > 0 {
		c.Error("gateway", "listen has no IPv4 address to use as the router's own on each session", "set gateway")
	}
	checkUsers(c, s)
	for i, p := range s.Pools {
		for j, a := range p.Addresses {
			for k, q := range s.Pools[:i+1] {
				for n, b := range q.Addresses {
					if (k < i || n < j) && a.IsValid() && b.IsValid() && a.Overlaps(b) {
						c.Error(fmt.Sprintf("pools[%d].addresses[%d]", i, j), fmt.Sprintf("%s overlaps pools[%d].addresses[%d]", a, k, n), "give each address once")
					}
				}
			}
		}
	}
	for i, p := range s.Prefixes {
		if p.IsValid() && p.Bits() > 64 {
			c.Error(fmt.Sprintf("prefixes[%d]", i), fmt.Sprintf("%s has no room for a /64", p), "hosts make addresses of length 64 only")
		}
		for j, q := range s.Delegate {
			if p.IsValid() && q.IsValid() && p.Overlaps(q) {
				c.Error(fmt.Sprintf("prefixes[%d]", i), fmt.Sprintf("%s overlaps delegate[%d]", p, j), "take the two out of different spaces")
			}
		}
	}
	for i, p := range s.Delegate {
		if p.IsValid() && p.Bits() > s.DelegateBits {
			c.Error(fmt.Sprintf("delegate[%d]", i), fmt.Sprintf("%s has no room for a /%d", p, s.DelegateBits), "make delegate_bits larger or the space wider")
		}
	}
	if len(s.Methods) == 0 && c.Given("authentication") {
		c.Warn("authentication", "everybody is let in", `like ["chap", "pap"]`)
	}
	if len(s.Users) == 0 && len(s.RADIUS) == 0 && !(c.Given("authentication") && len(s.Methods) == 0) {
		c.Error("", "no subscriber is known", "add users or radius")
	}
	if len(s.Dynamic) > 0 && len(s.RADIUS) == 0 {
		c.Warn("dynamic_authorization", "there is no RADIUS server whose sessions could be changed", "add radius")
	}
}

func checkUsers(c *config.Checker, s *Config) {
	seen := map[string]int{}
	for i, u := range s.Users {
		at := fmt.Sprintf("users[%d]", i)
		if j, ok := seen[u.Login]; ok && u.Login != "" {
			c.Error(at+".login", fmt.Sprintf("%q is also users[%d]", u.Login, j), "each login needs to be there once")
		}
		seen[u.Login] = i
		if u.Pool != "" && !slices.ContainsFunc(s.Pools, func(p Pool) bool { return p.Name == u.Pool }) {
			var names []string
			for _, p := range s.Pools {
				names = append(names, p.Name)
			}
			c.Error(at+".pool", fmt.Sprintf("there is no pool %q", u.Pool), config.Suggest(u.Pool, names))
		}
		if u.Prefix.IsValid() && u.Prefix.Bits() != 64 {
			c.Error(at+".prefix", fmt.Sprintf("%s has not the length 64", u.Prefix), "hosts make addresses of length 64 only")
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
		c.Error("server", fmt.Sprintf("%q is no server: %v", s.Server, err), `like "lns.example.net" or "192.0.2.1:1701"`)
	}
	if !s.IPv4 && !s.IPv6 {
		c.Error("", "it wants neither IPv4 nor IPv6", "take ipv4 = false or ipv6 = false out")
	}
	if s.Hide && s.Secret == "" {
		c.Error("hide", "there is nothing to encipher with", "set secret")
	}
	if len(s.Delegate) > 0 && !s.Prefix && !c.Given("prefix") {
		c.Error("delegate_to", "no prefix is asked for", "add prefix = true")
	}
	if s.Prefix && !s.IPv6 {
		c.Error("prefix", "there is no prefix without IPv6", "take ipv6 = false out")
	}
	c.Interfaces("delegate_to", s.Delegate)
	for i, family := range s.Default {
		if family != "4" && family != "6" {
			c.Error(fmt.Sprintf("default_route[%d]", i), fmt.Sprintf("%q is no family", family), `"4" or "6"`)
		}
	}
}

// ServerAddress splits a server's name and port.
func ServerAddress(server string) (hostPort string, err error) {
	if a, err := netip.ParseAddr(server); err == nil {
		return netip.AddrPortFrom(a, l2tp.Port).String(), nil
	}
	host, port := server, strconv.Itoa(l2tp.Port)
	if a, err := netip.ParseAddrPort(server); err == nil {
		return a.String(), nil
	}
	if before, after, ok := strings.Cut(server, ":"); ok {
		host, port = before, after
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("%q is no port", port)
	}
	if host == "" || strings.ContainsAny(host, " /[]") {
		return "", fmt.Errorf("%q is no name", host)
	}
	return host + ":" + port, nil
}
