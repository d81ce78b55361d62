package bridge

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"weft/internal/config"
	"weft/internal/state"
)

// hostLeaks warns of ways around the bridge that the host itself has.
func (p *planner) hostLeaks(path string, c *Config, ports []port) {
	devices := map[string]string{c.Device: path}
	for _, q := range ports {
		devices[q.Device] = q.Path
	}
	for _, s := range []string{"iptables", "ip6tables", "arptables"} {
		if name := "net/bridge/bridge-nf-call-" + s; p.facts.Sysctls[name] == "1" {
			p.warn(path, name+" is 1: frames between ports pass the host's "+s+", and what that forwards or answers", "sysctl -w "+strings.ReplaceAll(name, "/", ".")+"=0")
		}
	}
	for _, s := range []string{"ipv4/conf/all/proxy_arp", "ipv6/conf/all/proxy_ndp"} {
		if name := "net/" + s; p.facts.Sysctls[name] == "1" && c.Host {
			p.warn(path, name+" is 1: the router answers on the bridge for addresses elsewhere", "sysctl -w "+strings.ReplaceAll(name, "/", ".")+"=0")
		}
	}
	p.forwarding(path, c, ports)
	for _, q := range ports {
		for _, key := range []string{"owner", "group"} {
			if who := openers(q)[key]; slices.Contains(p.facts.Outsiders, who) {
				p.warn(q.Path+"."+key, fmt.Sprintf("this host has no %s: %s cannot be made for it", who, q.Device), "add it (useradd, groupadd), or name another")
			}
		}
	}
	for _, l := range p.facts.Links {
		at, ours := devices[l.Name]
		if a, some := lasting(l); some && at == path && !c.Host {
			p.warn(path, fmt.Sprintf("%s has the address %s, but the router is not part of the bridge: it cannot be reached", l.Name, a), "remove the address, or set host = true")
		} else if some && ours && at != path {
			p.warn(at, fmt.Sprintf("%s has the address %s: what the router sends from it does not leave a port", l.Name, a), "take the address off")
		}
		for _, s := range []string{"ipv4/conf/%s/proxy_arp", "ipv6/conf/%s/proxy_ndp"} {
			if name := "net/" + fmt.Sprintf(s, l.Name); ours && p.facts.Sysctls[name] == "1" {
				p.warn(at, name+" is 1: the router answers there for addresses elsewhere", fmt.Sprintf("echo 0 > /proc/sys/%s", name))
			}
		}
		if at, below := devices[l.Lower]; below && l.Lower != "" && (at != path || !c.Host) {
			p.warn(at, fmt.Sprintf("%s is a VLAN device on %s: its frames reach the router past the bridge's guards", l.Name, l.Lower), "take it down, or put it on the bridge with host_vlans")
		}
		if at, joined := devices[l.Peer]; joined && l.Peer != "" && l.Master != "" && l.Master != c.Device {
			p.warn(at, fmt.Sprintf("%s is joined to %s, a port of %s: two bridges become one", l.Peer, l.Name, l.Master), "take one of the two out of its bridge, or make it an uplink on purpose")
		} else if joined && l.Peer != "" && l.Master == "" && len(l.Addresses) > 0 {
			p.warn(at, fmt.Sprintf("%s, the other end of %s, is here and has the address %s: behind the port is the router itself", l.Name, l.Peer, l.Addresses[0]), "take the address off, or move the device to the guest")
		}
	}
}

// forwarding warns of what the host forwards though the file does not say so.
func (p *planner) forwarding(path string, c *Config, ports []port) {
	if !c.Host || p.f.Router().Forwarding {
		return // the second has its warning already
	}
	hostVLANs := append([]int{c.hostVLAN(p.f, path)}, c.HostVLANs...)
	for _, q := range ports {
		if _, both := share(q.vlans(), hostVLANs); q.Role != Guest || !both {
			continue
		}
		for _, name := range []string{"net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"} {
			if p.facts.Sysctls[name] == "1" {
				p.warn(path+".host", name+" is 1: guests reach all hosts that the router reaches, and each other, through the router", "sysctl -w "+strings.ReplaceAll(name, "/", ".")+"=0, or filter what comes from the bridge in the firewall's FORWARD chain")
			}
		}
		return
	}
}

// lasting returns an address that stays when IPv6 is switched off on the device.
func lasting(l state.LinkFact) (netip.Prefix, bool) {
	for _, a := range l.Addresses {
		if a.Addr().Is4() {
			return a, true
		}
	}
	return netip.Prefix{}, false
}

// Leaks returns the ways around f's bridges that the host itself has, as far as
// their devices are there.
func Leaks(f *config.File, facts state.Facts) []state.Problem {
	p := &planner{f: f, facts: facts}
	for _, name := range f.Names("bridge") {
		c := From(f, name)
		var ports []port
		for i := range c.Ports {
			ports = append(ports, portOf(f, name, i))
		}
		if here(facts, c, ports) {
			p.hostLeaks("bridge."+name, c, ports)
			if facts.NoVLANs {
				p.withoutVLANs("bridge."+name, several(c, ports))
			}
		}
	}
	state.SortProblems(p.problems)
	return p.problems
}

// here reports whether a device of the bridge is on this host; else the file is for
// another one.
func here(facts state.Facts, c *Config, ports []port) bool {
	_, there := facts.Link(c.Device)
	return there || slices.ContainsFunc(ports, func(q port) bool {
		_, there := facts.Link(q.Device)
		return there
	})
}

// openers gives who may open a tap, by key.
func openers(q port) map[string]string {
	who := map[string]string{}
	if q.Kind == Tap && q.Owner != "" {
		who["owner"] = "user " + q.Owner
	}
	if q.Kind == Tap && q.Group != "" {
		who["group"] = "group " + q.Group
	}
	return who
}

// Openers lists all who may open taps: "user NAME", "group NAME".
func Openers(f *config.File) []string {
	var list []string
	for _, name := range f.Names("bridge") {
		for i := range From(f, name).Ports {
			for _, who := range openers(portOf(f, name, i)) {
				list = append(list, who)
			}
		}
	}
	return list
}

// Watched lists the settings of the host that the warnings look at.
func Watched(f *config.File) []string {
	var names []string
	for _, name := range f.Names("bridge") {
		c := From(f, name)
		names = append(names, "net/bridge/bridge-nf-call-iptables", "net/bridge/bridge-nf-call-ip6tables", "net/bridge/bridge-nf-call-arptables",
			"net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding", "net/ipv4/conf/all/proxy_arp", "net/ipv6/conf/all/proxy_ndp")
		devices := []string{c.Device}
		for i := range c.Ports {
			devices = append(devices, portOf(f, name, i).Device)
		}
		for _, d := range devices {
			names = append(names, "net/ipv4/conf/"+d+"/proxy_arp", "net/ipv6/conf/"+d+"/proxy_ndp")
		}
	}
	return names
}
