// Package uplink is a way to the Internet: default routes over one interface, and
// whether hosts beyond it answer. Sections [uplink.NAME] of weft.toml ask for it; the
// first that works is used, the others stand by.
package uplink

import (
	"fmt"
	"net/netip"
	"time"

	"weft/internal/config"
)

// Config is [uplink.NAME].
type Config struct {
	Interface string        `toml:"interface" example:"\"wan\"" doc:"The NAME of the interface that leads to the provider. Default: NAME."`
	Gateways  []netip.Addr  `toml:"gateways" also:"gateway" example:"[\"192.0.2.1\", \"fe80::1\"]" doc:"The provider's routers, at most one of each family. weft makes a default route to each."`
	Metric    int           `toml:"metric" min:"0" max:"9999" example:"10" doc:"The metric of the default routes; the lowest is used. 0: the uplinks get metrics in the order of the file."`
	Probe     []netip.Addr  `toml:"probe" example:"[\"192.0.2.53\", \"2001:db8::53\"]" doc:"Hosts that are sent ICMP echo requests through this uplink. While none of a family answers, the default route of that family comes after those of other uplinks. None: the uplink counts as working while its device is up."`
	Interval  time.Duration `toml:"probe_interval" min:"500ms" max:"1h" example:"\"2s\"" doc:"The time between two requests to each host."`
	Failures  int           `toml:"probe_failures" min:"1" max:"100" example:"3" doc:"After so many unanswered rounds in a row the uplink is down."`
	Successes int           `toml:"probe_successes" min:"1" max:"100" example:"5" doc:"After so many answered rounds in a row it is up again."`
}

// probesMax bounds the hosts that one uplink is probed by.
const probesMax = 8

// Section is what config.Load needs to read [uplink.NAME].
func Section() config.Section {
	return config.Section{
		Name: "uplink", Named: true,
		Doc: "A way to the Internet: default routes over one interface, with fail-over to others.",
		New: func(name string) any {
			return &Config{Interface: name, Interval: 2 * time.Second, Failures: 3, Successes: 5}
		},
		Check: func(c *config.Checker, name string, s any) { check(c, name, s.(*Config)) },
	}
}

// From returns the section [uplink.NAME] of f, nil if there is none.
func From(f *config.File, name string) *Config {
	c, _ := f.Get("uplink", name).(*Config)
	return c
}

func check(c *config.Checker, name string, s *Config) {
	key := "interface"
	if !c.Given(key) {
		key = ""
	}
	if c.File().Interface(s.Interface) == nil {
		c.Error(key, fmt.Sprintf("there is no [interface.%s]", s.Interface), config.Suggest(s.Interface, c.File().Names("interface")))
	}
	for _, other := range c.File().Names("uplink") {
		if other == name {
			break
		}
		o := From(c.File(), other)
		if o.Interface == s.Interface {
			c.Error(key, fmt.Sprintf("interface.%s is the interface of [uplink.%s] already", s.Interface, other), "an interface is one uplink")
		}
		if s.Metric != 0 && o.Metric == s.Metric {
			c.Error("metric", fmt.Sprintf("%d is the metric of [uplink.%s] too", s.Metric, other), "the uplink with the lower metric is used")
		}
	}
	checkGateways(c, s)
	for i, a := range s.Probe {
		at := fmt.Sprintf("probe[%d]", i)
		switch {
		case !a.IsValid():
		case i >= probesMax:
			c.Error(at, fmt.Sprintf("an uplink is probed by at most %d hosts", probesMax), "take some out")
		case a.IsUnspecified() || a.IsMulticast() || a.IsLoopback():
			c.Error(at, fmt.Sprintf("%s is not a host beyond the uplink", a), "name a host that answers ping, as a name server of the provider")
		}
	}
}

func checkGateways(c *config.Checker, s *Config) {
	i := c.File().Interface(s.Interface)
	var have [2]bool
	for n, a := range s.Gateways {
		at := fmt.Sprintf("gateways[%d]", n)
		if !a.IsValid() {
			continue
		}
		if a.IsUnspecified() || a.IsMulticast() || a.IsLoopback() {
			c.Error(at, fmt.Sprintf("%s cannot be a router's address", a), "write the address that the provider gave as gateway")
			continue
		}
		if have[family(a)] {
			c.Error(at, fmt.Sprintf("is a second %s gateway", familyNames[family(a)]), "an uplink has one gateway of each family; a second line is a section [uplink.NAME] of its own")
		}
		have[family(a)] = true
		if i == nil {
			continue
		}
		for _, p := range i.Addresses {
			if p.Addr() == a {
				c.Error(at, fmt.Sprintf("%s is this router's own address on interface.%s", a, s.Interface), "write the address of the provider's router")
			}
		}
	}
}

func family(a netip.Addr) int {
	if a.Is4() {
		return 0
	}
	return 1
}

var familyNames = [2]string{"IPv4", "IPv6"}
