package bridge

import (
	"fmt"
	"slices"

	"weft/internal/config"
	"weft/internal/state"
)

// leaks warns of every way that the file leaves from a guest to the router, to
// infrastructure, or to another guest.
func leaks(c *config.Checker, name string, s *Config) {
	f := c.File()
	hostVLANs := append([]int{s.hostVLAN(f, c.Path(""))}, s.HostVLANs...)
	var ports []port
	for i := range s.Ports {
		ports = append(ports, portOf(f, name, i))
	}
	hosts := 0
	for i, p := range ports {
		at := func(key string) string {
			if key = fmt.Sprintf("ports[%d].%s", i, key); c.Given(key) {
				return key
			}
			return fmt.Sprintf("ports[%d]", i)
		}
		for _, n := range first(f).interfaces[p.Device] {
			if len(f.Interface(n).Addresses) > 0 {
				c.Error(at("interface"), fmt.Sprintf("interface.%s has addresses, and what arrives on a bridge's port goes to the bridge", n), "put the addresses on the bridge with host = true, or take them out")
			}
		}
		if c.Broken(fmt.Sprintf("ports[%d].role", i)) {
			continue // what it may do is not known
		}
		if p.Role != Guest {
			if p.Kind != "" {
				c.Warn(at("role"), fmt.Sprintf("the process that opens %s is trusted as %s: no filter and no limit applies, and it reaches all guests", p.Device, p.Role), "remove role for a guest")
			}
			continue
		}
		if v, both := share(p.vlans(), hostVLANs); s.Host && both {
			if hosts++; hosts == 1 {
				c.Warn("host", fmt.Sprintf("the guest at %s shares VLAN %d with the router, and reaches all that listens there", p.Device, v), "leave host out, or give the router a VLAN without guests")
			}
		}
		if !p.Isolated {
			c.Warn(at("isolated"), fmt.Sprintf("the guest at %s reaches other guests that are not isolated", p.Device), "leave isolated out")
		}
		if !p.Locked {
			c.Warn(at("locked"), fmt.Sprintf("the guest at %s may use any unused link address", p.Device), "list its addresses in macs")
		}
		if p.DHCPServer {
			c.Warn(at("dhcp_server"), fmt.Sprintf("the guest at %s may hand out addresses", p.Device), "leave dhcp_server out")
		}
		if p.Router {
			c.Warn(at("router"), fmt.Sprintf("the guest at %s may name itself the router of others", p.Device), "leave router out")
		}
		for _, limit := range []struct {
			key string
			n   int
		}{{"broadcast", p.Broadcast}, {"multicast", p.Multicast}, {"unknown_unicast", p.Unknown}} {
			if limit.n == 0 {
				c.Warn(at(limit.key), fmt.Sprintf("nothing limits what the guest at %s floods", p.Device), "leave "+limit.key+" out")
			}
		}
		if p.MaxMACs == 0 && !p.Locked {
			c.Warn(at("max_macs"), fmt.Sprintf("the guest at %s may fill the bridge's table with addresses", p.Device), "leave max_macs out")
		}
		for _, q := range ports {
			if v, both := share(p.vlans(), q.vlans()); both && q.Role == Infrastructure {
				c.Warn(at("vlan"), fmt.Sprintf("the guest at %s is in VLAN %d with the infrastructure at %s: weft's programs alone keep them apart", p.Device, v, q.Device), "give infrastructure a VLAN, or a bridge, of its own")
				break
			}
		}
	}
	if s.Host && hosts > 0 && f.Router().Forwarding {
		c.Warn("host", "with forwarding on in [router], guests reach through the router all that it reaches, each other too", "filter what comes from the bridge in the firewall's FORWARD chain")
	}
	routedPorts(c, ports)
	pastTheBridge(c, s, ports)
	intoTunnels(c, ports)
}

// intoTunnels finds ports at which tunnels' packets are taken: a guest may send
// some in the name of the other end.
func intoTunnels(c *config.Checker, ports []port) {
	f := c.File()
	for i, p := range ports {
		for _, n := range f.Names("interface") {
			if p.Role != Guest || f.Interface(n).Device != p.Device {
				continue
			}
			if tunnel, remedy := tunnelAt(f, n); tunnel != "" {
				c.Warn(fmt.Sprintf("ports[%d].interface", i), fmt.Sprintf("packets of %s are taken at interface.%s too, where a guest may send some in the name of its other end", tunnel, n), remedy)
			}
		}
	}
}

// tunnelAt returns a section whose packets are looked for at an interface, and the
// remedy.
func tunnelAt(f *config.File, name string) (section, remedy string) {
	without := fmt.Sprintf("take [interface.%s] out, and write the device here", name)
	for _, role := range []state.Roles{state.RolePseudowires, state.RoleSubscribers} {
		for _, u := range f.Uses(role) {
			switch {
			case u.Interface != name:
			case u.Lists:
				return u.Section, fmt.Sprintf("list interfaces in [%s] without it, or %s", u.Section, without)
			default:
				return u.Section, without
			}
		}
	}
	return "", ""
}

// takers are the roles in which an interface's packets are taken off where they
// arrive, before the kernel's bridge has them.
const takers = state.RoleRouted | state.RoleOffloaded | state.RoleTranslated

// pastTheBridge finds what other sections take to the router, or elsewhere, that
// guests sent to a bridge.
func pastTheBridge(c *config.Checker, s *Config, ports []port) {
	f := c.File()
	for _, u := range f.Uses(takers) {
		if !slices.Contains(f.Names("interface"), u.Interface) {
			continue // reported there
		}
		device := f.Interface(u.Interface).Device
		if device == s.Device && !s.Host {
			c.Error("host", fmt.Sprintf("%s has interface.%s, which is this bridge: what guests send would be forwarded by the router, which takes no part in it", u.Path, u.Interface), "take it out there, or write host = true")
		}
		for i, p := range ports {
			if p.Device == device && p.Role == Guest {
				c.Warn(fmt.Sprintf("ports[%d].interface", i), fmt.Sprintf("%s has interface.%s: what the guest sends to the link address of %s is forwarded past the bridge, wherever routes lead", u.Path, u.Interface, device), "take it out there")
			}
		}
	}
}

// routedPorts finds ports that another section wants XDP on.
func routedPorts(c *config.Checker, ports []port) {
	f := c.File()
	for i, p := range ports {
		for _, n := range first(f).interfaces[p.Device] {
			if in := f.Interface(n); in.Hook == config.HookXDP {
				c.Error(fmt.Sprintf("ports[%d].interface", i), fmt.Sprintf("interface.%s wants XDP, which would see frames before the port's guards do", n), fmt.Sprintf(`write hook = "tc" in [interface.%s]`, n))
			}
		}
	}
}
