package bridge

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"weft/internal/config"
	"weft/internal/state"
)

// Plan gives what the [bridge.NAME] sections want to exist. It is pure.
//
// A bridge is made first: only then does its kernel say what it can do. The
// programs are on a port before it joins.
func Plan(f *config.File, facts state.Facts) (state.Desired, []state.Problem) {
	p := &planner{f: f, facts: facts}
	for _, name := range f.Names("bridge") {
		p.bridge(name, From(f, name))
	}
	return p.desired, p.problems
}

type planner struct {
	f        *config.File
	facts    state.Facts
	desired  state.Desired
	problems []state.Problem
}

func (p *planner) want(objects ...state.Object) { p.desired = append(p.desired, objects...) }

func (p *planner) warn(path, what, remedy string) {
	p.problems = append(p.problems, state.Problem{Severity: state.Warning, Pos: p.f.Position(path), Path: path, What: what, Remedy: remedy})
}

func (p *planner) bridge(name string, c *Config) {
	path := "bridge." + name
	l, made := p.facts.Link(c.Device)
	b := state.Bridge{Name: c.Device, Owner: path, VLANs: l.VLANAware, Snooping: c.Snooping}
	b.MAC, _ = parseMAC(c.MAC)
	if l.LimitsMAC {
		b.MaxLearned = uint32(c.MaxMACs)
	}
	p.want(b)
	var ports []port
	for i := range c.Ports {
		q := portOf(p.f, name, i)
		if q.Kind != "" {
			p.want(state.GuestDevice{
				Name: q.Device, Kind: string(q.Kind), Peer: q.Peer, User: q.Owner, Group: q.Group, MultiQueue: q.MultiQueue,
				Owner: fmt.Sprintf("%s.%s", path, q.Interface),
			})
		} else if _, there := p.facts.Link(q.Device); !there {
			if !slices.Contains(p.facts.Made, q.Device) {
				p.warn(q.Path+".interface", fmt.Sprintf("this host has no device %q yet; it joins the bridge when it comes", q.Device), "make the device, or let weft make it with kind")
			}
			continue
		}
		ports = append(ports, q)
	}
	if !made {
		return // what its kernel can do is not known
	}
	tags := !b.VLANs && several(c, ports)
	if !b.VLANs {
		what := "the programs on its ports keep the router out"
		if tags {
			what = "the programs on its ports tell the VLANs apart instead"
		}
		p.warn(path, "this kernel's bridge has no VLAN filtering; "+what, "nothing has to be done; a kernel with CONFIG_BRIDGE_VLAN_FILTERING does it by itself")
	}
	p.host(c, path, b, tags)
	for _, q := range ports {
		p.port(c, b, q, tags)
	}
	p.hostLeaks(path, c, ports)
	p.want(state.Link{Name: c.Device})
}

// several tells whether frames of more than one VLAN meet in the bridge.
func several(c *Config, ports []port) bool {
	seen := map[int]bool{}
	for _, q := range ports {
		for _, v := range q.vlans() {
			seen[v] = true
		}
		if len(q.VLANs) > 0 {
			return true
		}
	}
	return len(seen) > 1 || len(c.HostVLANs) > 0
}

func (p *planner) program(device string, hook state.Hook, name string) {
	p.want(state.Attachment{Device: device, Hook: hook, Program: name, Build: p.facts.Builds[name]})
}

// host plans the router's own place in the bridge, or its absence.
func (p *planner) host(c *Config, path string, b state.Bridge, tags bool) {
	g := state.BridgeGuard{Device: c.Device, Bridge: c.Device, Role: state.BridgeHost, Member: c.Host, Tags: tags}
	if c.Host {
		g.PVID, g.VLANs = uint16(c.hostVLAN(p.f, path)), numbers(c.HostVLANs)
	} else {
		p.want(state.Sysctl{Name: "net/ipv6/conf/" + c.Device + "/disable_ipv6", Value: "1"})
	}
	p.want(g)
	p.program(c.Device, state.HookIngress, "bridge_host_in")
	p.program(c.Device, state.HookEgress, "bridge_host_out")
	if c.Host && b.VLANs {
		p.want(state.BridgeVLAN{Device: c.Device, VLAN: g.PVID, Untagged: true, Self: true})
		for _, v := range c.HostVLANs {
			p.want(state.BridgeVLAN{Device: c.Device, VLAN: uint16(v), Self: true})
		}
	}
}

func (p *planner) port(c *Config, b state.Bridge, q port, tags bool) {
	guest := q.Role == Guest
	suppress := c.NeighSuppress
	p.want(state.Sysctl{Name: "net/ipv6/conf/" + q.Device + "/disable_ipv6", Value: "1"})
	p.want(state.BridgeGuard{
		Device: q.Device, Bridge: c.Device, Role: q.role(), Member: true, Tags: tags,
		Isolated: q.Isolated, Locked: q.Locked, NoDHCP: !q.DHCPServer, NoRA: !q.Router, Suppress: suppress,
		PVID: uint16(q.PVID), VLANs: numbers(q.VLANs), MaxMACs: q.MaxMACs,
		Broadcast: q.Broadcast, Multicast: q.Multicast, Unknown: q.Unknown,
	})
	for _, mac := range q.MACs {
		p.want(state.Station{Bridge: c.Device, Device: q.Device, MAC: mac})
	}
	p.program(q.Device, state.HookIngress, "bridge_port_in")
	p.program(q.Device, state.HookEgress, "bridge_port_out")
	if !q.Offloads {
		p.want(state.NoOffloads{Device: q.Device})
		if q.Peer != "" {
			p.want(state.NoOffloads{Device: q.Peer})
		}
	}
	p.want(state.BridgePort{Device: q.Device, Bridge: c.Device, Isolated: q.Isolated, Locked: q.Locked, Suppress: suppress, Guest: guest})
	if b.VLANs {
		if q.PVID != 0 {
			p.want(state.BridgeVLAN{Device: q.Device, VLAN: uint16(q.PVID), Untagged: true})
		}
		for _, v := range q.VLANs {
			p.want(state.BridgeVLAN{Device: q.Device, VLAN: uint16(v)})
		}
	}
	for _, mac := range q.MACs {
		if !b.VLANs {
			p.want(state.BridgeAddress{Device: q.Device, MAC: mac})
			continue
		}
		for _, v := range q.vlans() {
			p.want(state.BridgeAddress{Device: q.Device, MAC: mac, VLAN: uint16(v)})
		}
	}
	for _, a := range q.Addresses {
		if len(q.MACs) == 1 {
			p.want(state.Neighbour{Device: c.Device, Addr: a, MAC: q.MACs[0]})
		}
	}
	p.want(state.Link{Name: q.Device})
}

// numbers writes VLANs as state.BridgeGuard holds them: sorted, with commas.
func numbers(list []int) string {
	sorted := slices.Sorted(slices.Values(list))
	words := make([]string, len(sorted))
	for i, n := range sorted {
		words[i] = strconv.Itoa(n)
	}
	return strings.Join(words, ",")
}

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
	for _, l := range p.facts.Links {
		at, ours := devices[l.Name]
		if a, some := lasting(l); some && at == path && !c.Host {
			p.warn(path, fmt.Sprintf("%s has the address %s, and the router takes no part in the bridge: nobody reaches it", l.Name, a), "take the address off, or write host = true")
		} else if some && ours && at != path {
			p.warn(at, fmt.Sprintf("%s has the address %s: what the router sends from it does not leave a port", l.Name, a), "take the address off")
		}
		if ours && p.facts.Sysctls["net/ipv4/conf/"+l.Name+"/proxy_arp"] == "1" {
			p.warn(at, fmt.Sprintf("proxy_arp is on for %s: the router answers for addresses elsewhere", l.Name), "sysctl -w net.ipv4.conf."+l.Name+".proxy_arp=0")
		}
		if at, below := devices[l.Lower]; below && l.Lower != "" && (at != path || !c.Host) {
			p.warn(at, fmt.Sprintf("%s is a VLAN device on %s: its frames reach the router past the bridge's guards", l.Name, l.Lower), "take it down, or put it on the bridge with host_vlans")
		}
		if at, joined := devices[l.Peer]; joined && l.Peer != "" && l.Master != "" && l.Master != c.Device {
			p.warn(at, fmt.Sprintf("%s is joined to %s, a port of %s: two bridges become one", l.Peer, l.Name, l.Master), "take one of the two out of its bridge, or make it an uplink on purpose")
		}
	}
}

// lasting gives an address that stays when IPv6 is switched off on the device.
func lasting(l state.LinkFact) (netip.Prefix, bool) {
	for _, a := range l.Addresses {
		if a.Addr().Is4() {
			return a, true
		}
	}
	return netip.Prefix{}, false
}

// Watched lists the settings of the host that the warnings look at.
func Watched(f *config.File) []string {
	var names []string
	for _, name := range f.Names("bridge") {
		c := From(f, name)
		names = append(names, "net/bridge/bridge-nf-call-iptables", "net/bridge/bridge-nf-call-ip6tables", "net/bridge/bridge-nf-call-arptables",
			"net/ipv4/conf/"+c.Device+"/proxy_arp")
		for i := range c.Ports {
			names = append(names, "net/ipv4/conf/"+portOf(f, name, i).Device+"/proxy_arp")
		}
	}
	return names
}
