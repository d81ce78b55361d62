package openwrt

import (
	"fmt"
	"net/netip"
	"strings"
)

// routes says how to set the routes and rules that weft leaves to others.
func (c *converter) routes() {
	for _, s := range c.of("network", "route", "route6") {
		if s.on("disabled", false) {
			s.rest(Yes, "disabled, and left out", "")
			continue
		}
		s.rest(No, "weft sets no static routes", "by your network manager, or: "+c.route(s))
	}
	for _, s := range c.of("network", "rule", "rule6") {
		if s.on("disabled", false) {
			s.rest(Yes, "disabled, and left out", "")
			continue
		}
		s.rest(No, "weft sets no routing rules", "by your network manager, or: "+c.rule(s))
	}
	for _, s := range c.of("network", "neighbor", "neighbor6") {
		device := c.deviceNamed(s.value("interface"))
		s.rest(No, "weft sets no neighbours but for translators", fmt.Sprintf("ip neigh replace %s lladdr %s dev %s", printable(s.value("ipaddr")), printable(s.value("mac")), device))
	}
}

// deviceNamed is the device of an interface, as it will be.
func (c *converter) deviceNamed(name string) string {
	if i := c.byName[name]; i != nil && i.device != "" {
		return i.device
	}
	return "DEVICE"
}

func (c *converter) route(s *section) string {
	six := s.Type == "route6"
	to := s.value("target")
	if mask := s.value("netmask"); mask != "" && !strings.Contains(to, "/") {
		if n := maskLength(mask); n >= 0 {
			to = fmt.Sprintf("%s/%d", to, n)
		}
	}
	if p, err := netip.ParsePrefix(to); err == nil && p.Bits() == 0 || to == "" {
		to = "default"
	}
	words := []string{"ip"}
	if six {
		words = append(words, "-6")
	}
	words = append(words, "route", "add")
	if kind := s.value("type"); kind != "" && kind != "unicast" {
		words = append(words, printable(kind))
	}
	words = append(words, printable(to))
	if via := s.value("gateway"); via != "" && via != "0.0.0.0" && via != "::" {
		words = append(words, "via", printable(via))
	}
	if s.has("interface") {
		words = append(words, "dev", c.deviceNamed(s.value("interface")))
	}
	for _, pair := range [][2]string{{"metric", "metric"}, {"table", "table"}, {"mtu", "mtu"}, {"source", "src"}} {
		if v := s.value(pair[0]); v != "" {
			words = append(words, pair[1], printable(v))
		}
	}
	return strings.Join(words, " ")
}

func (c *converter) rule(s *section) string {
	words := []string{"ip"}
	if s.Type == "rule6" {
		words = append(words, "-6")
	}
	words = append(words, "rule", "add")
	if s.on("invert", false) {
		words = append(words, "not")
	}
	for _, pair := range [][2]string{{"priority", "priority"}, {"src", "from"}, {"dest", "to"}, {"tos", "tos"}, {"mark", "fwmark"}, {"uidrange", "uidrange"}, {"sport", "sport"}, {"dport", "dport"}, {"ipproto", "ipproto"}} {
		if v := s.value(pair[0]); v != "" {
			words = append(words, pair[1], printable(v))
		}
	}
	for _, pair := range [][2]string{{"in", "iif"}, {"out", "oif"}} {
		if v := s.value(pair[0]); v != "" {
			words = append(words, pair[1], c.deviceNamed(v))
		}
	}
	switch {
	case s.has("lookup"):
		words = append(words, "lookup", printable(s.value("lookup")))
	case s.has("goto"):
		words = append(words, "goto", printable(s.value("goto")))
	case s.has("action"):
		words = append(words, printable(s.value("action")))
	}
	return strings.Join(words, " ")
}
