package lns

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"slices"

	"weft/internal/addresspool"
	"weft/internal/config"
	"weft/internal/ppp"
	"weft/internal/state"
	"weft/internal/subscriber"
	wirel2tp "weft/wire/l2tp"
)

// Plan returns the desired objects of the [lns.NAME] and [l2tp_client.NAME] sections:
// their devices, and the routes to them. It is pure. Sessions are not objects: they
// change many times a second, and the engine writes them.
func Plan(f *config.File, facts state.Facts) state.Part {
	var desired state.Desired
	var problems []state.Problem
	ids := assignIDs(f, facts.LNSes)
	for _, name := range f.Names("lns") {
		d, p := planServer(f, facts, name, ids[shortName("lns", name)])
		desired, problems = append(desired, d...), append(problems, p...)
	}
	for _, name := range f.Names("l2tp_client") {
		d, p := planClient(f, facts, name, ids[clientID(name)])
		desired, problems = append(desired, d...), append(problems, p...)
	}
	return state.Part{Feature: "lns", Objects: desired, Needs: needs(f, facts), Claims: claims(f), Problems: problems}
}

// clientID is a client's key among those of all sections; no section's NAME has a
// slash.
func clientID(name string) string { return shortName("l2tp_client", name) }

// assignIDs gives each section its number in the datapath. Sections that have a number
// keep it.
func assignIDs(f *config.File, inUse map[string]int) map[string]int {
	names := slices.Clone(f.Names("lns"))
	for _, name := range f.Names("l2tp_client") {
		names = append(names, clientID(name))
	}
	ids, _ := state.AssignIDs(names, inUse, math.MaxInt)
	return ids
}

func planServer(f *config.File, facts state.Facts, name string, id int) (state.Desired, []state.Problem) {
	c := From(f, name)
	device := Device(name)
	desired := state.Desired{state.Device{Name: device, MAC: state.DeviceMAC(device), MTU: 1500, Owner: "lns." + name}}
	// The router is the only neighbour on a subscriber's link: a redirect (RFC 1812 section
	// 5.2.7.2) would be wrong. The kernel sends redirects if either of the two allows it.
	for _, conf := range []string{"all", device} {
		desired = append(desired, state.Sysctl{Name: "net/ipv4/conf/" + conf + "/send_redirects", Value: "0"})
	}
	if g := gatewayOf(c); g.IsValid() && !here(f, facts, g, device) {
		desired = append(desired, state.Address{Device: device, Prefix: netip.PrefixFrom(g, 32)})
	}
	var walledGarden []state.Object
	for _, p := range c.WalledGarden {
		walledGarden = append(walledGarden, state.WalledGarden{LNS: id, Prefix: p})
	}
	desired = append(desired, onDevice(f, facts, "lns", name, device, id, walledGarden)...)
	var problems []state.Problem
	if !f.Router().Forwarding {
		path := "lns." + name
		problems = append(problems, state.Problem{
			Severity: state.Warning, Pos: f.Position(path), Path: path,
			What: "router.forwarding is off: subscribers reach only this router", Remedy: "set forwarding = true",
		})
	}
	for i, a := range c.Listen {
		if !here(f, facts, a, "") {
			path := fmt.Sprintf("lns.%s.listen[%d]", name, i)
			problems = append(problems, state.Problem{
				Severity: state.Warning, Pos: f.Position(path), Path: path,
				What: fmt.Sprintf("%s is not an address of this host: LACs cannot reach it", a), Remedy: "add it to an interface",
			})
		}
	}
	for _, p := range c.Pools {
		for _, a := range p.Addresses {
			desired = append(desired, state.Route{Prefix: a, Device: device})
		}
	}
	if c.IPv6 {
		for _, p := range spaces6(c) {
			desired = append(desired, state.Route{Prefix: p, Device: device})
		}
	}
	for _, p := range own(c) {
		if !slices.ContainsFunc(desired, func(o state.Object) bool {
			r, ok := o.(state.Route)
			return ok && r.Prefix.Bits() <= p.Bits() && r.Prefix.Contains(p.Addr())
		}) {
			desired = append(desired, state.Route{Prefix: p, Device: device})
		}
	}
	return desired, problems
}

// spaces6 are the prefixes that IPv6 addresses and prefixes are assigned from.
func spaces6(c *Config) []netip.Prefix {
	list := slices.Concat(c.Prefixes, c.Delegate, c.Addresses6)
	for _, p := range c.Pools {
		list = slices.Concat(list, p.Prefixes, p.Delegate, p.Addresses6)
	}
	return list
}

// gatewayOf returns the router's own address on the section's sessions.
func gatewayOf(c *Config) netip.Addr {
	if c.Gateway.IsValid() {
		return c.Gateway
	}
	for _, p := range c.Pools {
		for _, a := range p.Addresses {
			if a.IsValid() && a.Bits() < 31 {
				return a.Addr().Next()
			}
		}
	}
	return netip.Addr{}
}

// own are the prefixes of the users in the file.
func own(c *Config) []netip.Prefix {
	var list []netip.Prefix
	for _, u := range c.Users {
		for _, a := range []netip.Addr{u.IPv4, u.IPv6} {
			if a.IsValid() {
				list = append(list, netip.PrefixFrom(a, a.BitLen()))
			}
		}
		for _, p := range append([]netip.Prefix{u.Prefix, u.Delegated}, u.Routes...) {
			if p.IsValid() {
				list = append(list, p)
			}
		}
	}
	slices.SortFunc(list, netip.Prefix.Compare)
	return slices.Compact(list)
}

// here reports whether the host has an address, or will have it, on another device than
// the given one.
func here(f *config.File, facts state.Facts, a netip.Addr, but string) bool {
	has := func(list []netip.Prefix) bool {
		return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Addr() == a })
	}
	for _, l := range facts.Links {
		if l.Name != but && has(l.Addresses) {
			return true
		}
	}
	return slices.ContainsFunc(f.Names("interface"), func(n string) bool { return has(f.Interface(n).Addresses) })
}

func planClient(f *config.File, facts state.Facts, name string, id int) (state.Desired, []state.Problem) {
	c := ClientFrom(f, name)
	device := ClientDevice(name)
	got := facts.Clients[name]
	desired := state.Desired{state.Device{Name: device, MAC: state.DeviceMAC(device), MTU: cmp.Or(got.MTU, c.MRU), Owner: "l2tp_client." + name}}
	desired = append(desired, onDevice(f, facts, "l2tp_client", name, device, id, nil)...)
	var problems []state.Problem
	if !got.Up {
		return desired, nil
	}
	if got.IPv4.IsValid() {
		desired = append(desired, state.Address{Device: device, Prefix: netip.PrefixFrom(got.IPv4, 32)})
		// No route to the server's end of the session: it is often the address that the tunnel
		// itself is sent to.
	}
	for _, a := range got.Addresses {
		desired = append(desired, state.Address{Device: device, Prefix: netip.PrefixFrom(a.Addr(), 128)})
	}
	for i, lan := range c.Delegate {
		p, ok := subnet(got.Delegated, i)
		if !got.Delegated.IsValid() {
			break
		}
		if !ok {
			path := fmt.Sprintf("l2tp_client.%s.delegate_to[%d]", name, i)
			problems = append(problems, state.Problem{
				Severity: state.Warning, Pos: f.Position(path), Path: path,
				What: fmt.Sprintf("%s has no free /64 for this interface", got.Delegated), Remedy: "request a shorter prefix from the provider",
			})
			continue
		}
		desired = append(desired, state.Address{Device: f.Interface(lan).Device, Prefix: netip.PrefixFrom(p.Addr().Next(), 64)})
	}
	var anywhere []netip.Prefix
	if slices.Contains(c.Default, "4") && got.IPv4.IsValid() {
		anywhere = append(anywhere, netip.PrefixFrom(netip.IPv4Unspecified(), 0))
	}
	if slices.Contains(c.Default, "6") && got.Router {
		anywhere = append(anywhere, netip.PrefixFrom(netip.IPv6Unspecified(), 0))
	}
	for _, p := range anywhere {
		metric, ahead := facts.Beside(p, device)
		desired = append(desired, state.Route{Prefix: p, Device: device, Metric: metric})
		for _, r := range ahead {
			path := "l2tp_client." + name + ".default_route"
			problems = append(problems, state.Problem{
				Severity: state.Warning, Pos: f.Position(path), Path: path, Condition: state.Degraded,
				What:   fmt.Sprintf("the host's route has a lower metric than that of the session: %s", r),
				Remedy: fmt.Sprintf("give that route a metric above %d where it is configured (ifupdown: metric; systemd-networkd: RouteMetric; NetworkManager: route-metric), and the server a route of its own", metric),
			})
		}
	}
	return desired, problems
}

// Settings returns the engine's settings.
func Settings(f *config.File, facts state.Facts) ([]subscriber.ServerSettings, []subscriber.ClientSettings) {
	ids := assignIDs(f, facts.LNSes)
	var servers []subscriber.ServerSettings
	for _, name := range f.Names("lns") {
		s := settingsOf(f, name, ids[name])
		if !f.Given("lns." + name + ".pref64") {
			s.PREF64 = translators(f, facts, s.Device)
		}
		servers = append(servers, s)
	}
	var clients []subscriber.ClientSettings
	for _, name := range f.Names("l2tp_client") {
		c := ClientFrom(f, name)
		methods := c.Methods
		if !f.Given("l2tp_client." + name + ".authentication") {
			methods = []ppp.Method{ppp.MethodCHAP, ppp.MethodMSCHAPv2} // PAP reveals the password to whichever server answers
		}
		clients = append(clients, subscriber.ClientSettings{
			Name: name, ID: ids[clientID(name)], Device: ClientDevice(name), Server: c.Server, Secret: c.Secret, Hide: c.Hide, HostName: c.HostName,
			Login: c.Login, Password: c.Password, Methods: methods, IPv4: c.IPv4, IPv6: c.IPv6, Prefix: c.Prefix, MRU: c.MRU,
			Keepalive: c.Keepalive, Retry: c.Retry,
		})
	}
	return servers, clients
}

// translators returns the prefixes of the translators that serve a device.
func translators(f *config.File, facts state.Facts, device string) []netip.Prefix {
	var list []netip.Prefix
	for _, t := range facts.Prefixes64 {
		serves := slices.ContainsFunc(t.Interfaces, func(n string) bool { i := f.Interface(n); return i != nil && i.Device == device })
		if serves && !slices.Contains(list, t.Prefix) {
			list = append(list, t.Prefix)
		}
	}
	return list
}

func settingsOf(f *config.File, name string, id int) subscriber.ServerSettings {
	c := From(f, name)
	s := subscriber.ServerSettings{
		Name: name, ID: id, Device: Device(name), HostName: c.HostName, Hello: c.Hello, Echo: c.Echo, MRU: c.MRU, Methods: c.Methods,
		Remote: len(c.RADIUS) > 0, Gateway: c.Gateway, Prefixes: c.Prefixes, Delegate: c.Delegate,
		Addresses6: c.Addresses6, Bits: c.DelegateBits, IPv6: c.IPv6, DNS: c.DNS, PREF64: c.PREF64, Duplicates: c.Duplicates, WalledGarden: c.WalledGarden, Portal: c.Portal, MaxSessions: c.MaxSessions,
		Default: subscriber.Profile{Up: uint64(c.Up), Down: uint64(c.Down), SessionTimeout: c.SessionTime, IdleTimeout: c.IdleTime, Interim: c.Interim},
	}
	if !f.Given("lns." + name + ".authentication") {
		s.Methods = []ppp.Method{ppp.MethodCHAP, ppp.MethodMSCHAPv2}
	}
	for _, a := range c.Listen {
		s.Listen = append(s.Listen, netip.AddrPortFrom(a, wirel2tp.Port))
	}
	s.Gateway = gatewayOf(c)
	for _, l := range c.LACs {
		l.Name = cmp.Or(l.Name, l.HostName, l.Address.String())
		s.LACs = append(s.LACs, subscriber.LAC(l))
	}
	for i := range c.Users {
		s.Users = append(s.Users, c.Users[i].Subscriber())
	}
	for _, p := range c.Pools {
		s.Pools = append(s.Pools, addresspool.Pool(p))
	}
	for _, fw := range c.Forward {
		s.Forward = append(s.Forward, subscriber.Forward(fw))
	}
	return s
}

// Made returns the names of the devices that the sections make.
func Made(f *config.File) []string {
	var list []string
	for _, name := range f.Names("lns") {
		list = append(list, Device(name))
	}
	for _, name := range f.Names("l2tp_client") {
		list = append(list, ClientDevice(name))
	}
	return list
}

// Devices returns the devices of all sections, by their number in the datapath.
func Devices(f *config.File, facts state.Facts) map[int]string {
	ids := assignIDs(f, facts.LNSes)
	m := map[int]string{}
	for _, name := range f.Names("lns") {
		m[ids[name]] = Device(name)
	}
	for _, name := range f.Names("l2tp_client") {
		m[ids[clientID(name)]] = ClientDevice(name)
	}
	return m
}

// subnet returns the n-th /64 of a prefix.
func subnet(p netip.Prefix, n int) (netip.Prefix, bool) {
	if !p.IsValid() || p.Bits() > 64 || p.Bits() > 32 && n >= 1<<(64-p.Bits()) {
		return netip.Prefix{}, false
	}
	a := p.Masked().Addr().As16()
	high := binary.BigEndian.Uint64(a[:8]) + uint64(n)
	binary.BigEndian.PutUint64(a[:8], high)
	return netip.PrefixFrom(netip.AddrFrom16(a), 64), true
}
