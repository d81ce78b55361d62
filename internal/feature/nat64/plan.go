package nat64

import (
	"fmt"
	"net/netip"
	"slices"

	"weft/internal/config"
	"weft/internal/state"
)

// headroom is what a packet grows by when IPv4 becomes IPv6.
const headroom = 20

// Plan returns what the [nat64.NAME] sections want to exist. It is pure.
func Plan(f *config.File, facts state.Facts) state.Part {
	var desired state.Desired
	var problems []state.Problem
	inUse := map[string]int{}
	for _, name := range f.Names("nat64") {
		if id, ok := ID(facts, name); ok {
			inUse[name] = id
		}
	}
	ids, full := state.AssignIDs(f.Names("nat64"), inUse, state.TranslatorsMax)
	for _, name := range full {
		problems = append(problems, problem(f, "nat64."+name, "there are more translators than the datapath holds", fmt.Sprintf("at most %d", state.TranslatorsMax)))
	}
	for _, name := range f.Names("nat64") {
		if _, ok := ids[name]; ok {
			desired = append(desired, planOne(f, facts, name, ids[name])...)
		}
	}
	list, more := needs(f, facts, ids)
	problems = append(problems, more...)
	return state.Part{Feature: "nat64", Objects: desired, Needs: list, Claims: claims(f), Problems: slices.Concat(problems, withoutSubnet(f, facts), unreached(f, facts))}
}

func problem(f *config.File, path, what, remedy string) state.Problem {
	return state.Problem{Pos: f.Position(path), Path: path, What: what, Remedy: remedy}
}

func planOne(f *config.File, facts state.Facts, name string, id int) state.Desired {
	c := effective(f, facts, name)
	section := "nat64." + name
	mtu := largestMTU(f, facts, c)
	mac := state.DeviceMAC(c.Device)
	desired := state.Desired{
		state.Device{Name: c.Device, MAC: mac, MTU: mtu + headroom, Owner: section},
	}
	translator := state.Translator{
		ID: id, Name: state.ShortName(name), Device: c.Device, MAC: mac, Prefix: c.Prefix,
		LowestMTU: lowestMTU(f, facts, c), SmallestMTU: slices.Min(mtus(f, facts, c)), UDPZero: c.ComputesUDPZero(), CopyTOS: c.CopyTrafficClass,
		Stateful: c.Mode == StatefulMode, Counts: c.Mode == StatefulMode && c.CountSubscribers,
	}
	if c.TCPMSSClamp {
		translator.MaxMSS = c.maxMSS(f, facts)
	}
	// how it binds comes first: packets may come as soon as there are rules
	desired = append(desired, c.binds(id, slices.Contains(facts.Shared, name))...)
	if c.Mode == CLAT {
		translator.Prefix = netip.Prefix{} // no local node has an address under it
		if c.OwnIPv4.IsValid() && c.Prefix.IsValid() {
			desired = append(desired, state.Address{Device: c.Device, Prefix: netip.PrefixFrom(c.OwnIPv4, 32)})
		}
	}
	desired = append(desired, translator)
	desired = append(desired, c.rules(f, id)...)
	desired = append(desired, proxies(f, facts, c)...)
	for _, hook := range []struct {
		hook    state.Hook
		program string
	}{{state.HookEgress, "translator_egress"}, {state.HookIngress, "translator_ingress"}} {
		desired = append(desired, state.Attachment{Device: c.Device, Hook: hook.hook, Program: hook.program, Build: facts.Builds[hook.program]})
	}
	for _, p := range c.prefixes4(f) {
		desired = append(desired, state.Route{Prefix: p, Device: c.Device, MTU: mtu - headroom})
	}
	for _, p := range c.prefixes6() {
		desired = append(desired, state.Route{Prefix: p, Device: c.Device})
	}
	return desired
}

// mtus returns the MTUs of the interfaces that a translator serves; 1500 where
// the device is not there yet.
func mtus(f *config.File, facts state.Facts, c *Config) []int {
	var list []int
	for _, name := range c.Interfaces {
		i := f.Interface(name)
		mtu := 1500
		if l, ok := facts.Link(i.Device); ok {
			mtu = l.MTU
		}
		if i.MTU != 0 {
			mtu = i.MTU
		}
		list = append(list, mtu)
	}
	return list
}

// An IPv4 packet may become 20 bytes longer, and no IPv6 link is below 1280.
func largestMTU(f *config.File, facts state.Facts, c *Config) int {
	return min(max(slices.Max(mtus(f, facts, c)), 1280), 65535-headroom)
}

func smallestMTU(f *config.File, facts state.Facts, c *Config) int {
	return max(slices.Min(mtus(f, facts, c)), 1280)
}

// lowestMTU is what IPv4 packets that may be fragmented are cut to: what the
// section says of the IPv6 network, but no more than c's own IPv6 links take
// (RFC 7915 section 4.1).
func lowestMTU(f *config.File, facts state.Facts, c *Config) int {
	lowest := c.LowestIPv6MTU
	for n, mtu := range mtus(f, facts, c) {
		i := f.Interface(c.Interfaces[n])
		l, _ := facts.Link(i.Device)
		for _, a := range append(slices.Clone(i.Addresses), l.Addresses...) {
			if a.Addr().Is6() && !a.Addr().IsLinkLocalUnicast() {
				lowest = min(lowest, max(mtu, 1280))
			}
		}
	}
	return lowest
}

// maxMSS is what TCP over IPv6 carries over the smallest link: 40 + 20 bytes
// are headers.
func (c *Config) maxMSS(f *config.File, facts state.Facts) int {
	return smallestMTU(f, facts, c) - 60
}

// proxies returns the translated prefixes that lie in a subnet of an interface:
// its hosts ask for their link addresses.
func proxies(f *config.File, facts state.Facts, c *Config) []state.Object {
	var list []state.Object
	for _, name := range c.Interfaces {
		i := f.Interface(name)
		l, _ := facts.Link(i.Device)
		if l.Encap != "" {
			continue // there are no link addresses to ask for
		}
		addresses := slices.Concat(i.Addresses, l.Addresses)
		for _, p := range append(c.prefixes4(f), c.prefixes6()...) {
			for _, a := range addresses {
				subnet := a.Masked()
				if !within(p, subnet) || p.Contains(a.Addr()) {
					continue
				}
				list = append(list, state.Proxy{Device: i.Device, Prefix: p})
				if p.Addr().Is6() {
					// the questions go to groups that the device has not joined
					list = append(list, state.AllMulticast{Device: i.Device})
				}
				break
			}
		}
	}
	return list
}

// needs returns what translators need of their interfaces, and interfaces that
// cannot have any.
func needs(f *config.File, facts state.Facts, ids map[string]int) (list []state.Need, problems []state.Problem) {
	seen := map[string]bool{}
	for _, name := range f.Names("nat64") {
		id, numbered := ids[name]
		for k, in := range From(f, name).Interfaces {
			n := f.Need(fmt.Sprintf("nat64.%s.interfaces[%d]", name, k), in, 0)
			l, there := facts.Link(n.Device)
			if !there || !numbered {
				continue
			}
			n.Translators, n.Unframed = 1<<id, state.UnframedStack
			if f.Interface(in).Bypass {
				// only what goes out past the stack can be translated in XDP
				n.Roles, n.XDP = state.RoleBypass, state.Required
			}
			list = append(list, n)
			if l.GROList && !seen[in] {
				// what it hands over is no packet but a chain of them, of which only
				// the first would be translated
				seen[in] = true
				problems = append(problems, problem(f, "interface."+in, fmt.Sprintf("%s chains received packets (rx-gro-list), which cannot be translated", n.Device), "ethtool -K "+n.Device+" rx-gro-list off"))
			}
		}
	}
	return list, problems
}
