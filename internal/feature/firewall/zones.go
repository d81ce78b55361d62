package firewall

import (
	"net/netip"
	"slices"
	"strings"

	"weft/internal/config"
)

// zone is a zone with everything that its kind gives it.
type zone struct {
	name     string
	kind     Kind
	devices  []string
	to       []string
	services []string
	isolated bool
	nat      []netip.Prefix // sources that get the router's address; none: no NAT
	clamp    bool
	bogons   bool
}

// has reports whether a device is in the zone.
func (z zone) has(device string) bool {
	return slices.ContainsFunc(z.devices, func(d string) bool {
		stem, any := strings.CutSuffix(d, "*")
		return d == device || any && strings.HasPrefix(device, stem)
	})
}

// private are the IPv4 sources that a provider does not route (RFC 1918, RFC 6598).
func private() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"),
		netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"),
	}
}

// zones returns the zones of a file, in its order.
func zones(f *config.File) (list []zone) {
	names := f.Names("zone")
	for _, name := range names {
		s := ZoneFrom(f, name)
		given := func(key string) bool { return f.Given("zone." + name + "." + key) }
		z := zone{name: name, kind: s.Kind, devices: slices.Clone(s.Devices), to: s.To, services: s.Services, isolated: s.Isolated, clamp: s.ClampMSS, bogons: s.Bogons}
		for _, in := range s.Interfaces {
			if i := f.Interface(in); i != nil {
				z.devices = append(z.devices, i.Device)
			}
		}
		if !given("to") {
			for _, other := range names {
				wan := ZoneFrom(f, other).Kind == WAN
				if other != name && (z.kind == LAN || z.kind == Guest && wan) {
					z.to = append(z.to, other)
				}
			}
		}
		if !given("services") {
			z.services = map[Kind][]string{LAN: {all}, Guest: {"dns", "dhcp", "dhcpv6"}}[z.kind]
		}
		if !given("isolated") {
			z.isolated = z.kind != LAN
		}
		if !given("tcp_mss_clamp") {
			z.clamp = z.kind == WAN
		}
		if s.Masquerade || !given("masquerade") && z.kind == WAN {
			if z.nat = s.Sources; !given("masquerade_sources") {
				z.nat = private()
			}
		}
		list = append(list, z)
	}
	return list
}
