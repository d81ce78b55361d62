// Package host looks after what [router] and [interface.NAME] say of the
// machine itself: forwarding, devices, addresses.
package host

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"weft/internal/config"
	"weft/internal/state"
)

// Plan returns what [router] and the [interface.NAME] sections want to exist.
// It is pure.
func Plan(f *config.File, facts state.Facts) state.Part {
	var desired state.Desired
	var problems []state.Problem
	var claims []state.Claim
	if f.Router().Forwarding {
		// before forwarding, which removes the routes of router advertisements
		desired = append(desired, keepRAs(f, facts)...)
		desired = append(desired,
			state.Sysctl{Name: "net/ipv4/ip_forward", Value: "1"},
			state.Sysctl{Name: "net/ipv6/conf/all/forwarding", Value: "1"},
		)
	}
	for _, name := range f.Names("interface") {
		i := f.Interface(name)
		_, there := facts.Link(i.Device)
		for n, a := range i.Addresses {
			path := fmt.Sprintf("interface.%s.addresses[%d]", name, n)
			claims = append(claims, state.Claim{Prefix: a, For: state.ClaimOwn, Section: "interface." + name, Device: i.Device, Path: path, Pos: f.Position(path)})
		}
		if !there && slices.Contains(facts.Made, i.Device) {
			continue // it comes in a round of its own
		}
		if !there {
			path := "interface." + name
			if f.Given(path + ".device") {
				path += ".device"
			}
			if strings.HasPrefix(i.Device, "ppp") {
				problems = append(problems, state.Problem{
					Severity: state.Warning, Pos: f.Position(path), Path: path,
					What:   fmt.Sprintf("there is no device %s now: a PPP session's comes and goes with the session", i.Device),
					Remedy: "its configuration is applied whenever it exists",
				})
				continue
			}
			problems = append(problems, state.Problem{
				Severity: state.Warning, Pos: f.Position(path), Path: path, Condition: state.NotWorking,
				What:   fmt.Sprintf("this host has no device %q now", i.Device),
				Remedy: "it has " + deviceNames(facts) + "; the rest of the file is applied, and this when the device appears",
			})
			continue
		}
		l, _ := facts.Link(i.Device)
		problems = append(problems, contested(f, name, l)...)
		desired = append(desired, state.Link{Name: i.Device, MTU: i.MTU})
		if i.Promiscuous {
			desired = append(desired, state.Promiscuous{Device: i.Device})
		}
		if !i.Offloads {
			desired = append(desired, state.NoOffloads{Device: i.Device})
		}
		for _, a := range i.Addresses {
			desired = append(desired, state.Address{Device: i.Device, Prefix: a})
		}
	}
	return state.Part{Feature: "host", Objects: desired, Problems: problems, Claims: claims}
}

func deviceNames(facts state.Facts) string {
	var names []string
	for _, l := range facts.Links {
		if l.Name != "lo" && l.Kind != "tuntap" {
			names = append(names, l.Name)
		}
	}
	if len(names) == 0 {
		return "none but the loopback"
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// keepRAs has the host take router advertisements where it did so as a host
// (accept_ra = 2): without that, an uplink would lose its default route and its
// addresses when the host begins to forward. Where the router itself advertises,
// or the file gives it a subnet, only what has been learnt already is kept.
func keepRAs(f *config.File, facts state.Facts) (list []state.Object) {
	own := slices.Clone(facts.Advertises)
	for _, name := range f.Names("interface") {
		i := f.Interface(name)
		if slices.ContainsFunc(i.Addresses, func(a netip.Prefix) bool { return a.Addr().Is6() }) {
			own = append(own, i.Device)
		}
	}
	for _, l := range facts.Links {
		master, _ := facts.Link(l.Master)
		switch {
		case !l.AcceptRA, l.Name == "lo", master.Kind == "bridge", slices.Contains(facts.Made, l.Name):
		case l.LearntRA, !slices.Contains(own, l.Name):
			list = append(list, state.Sysctl{Name: "net/ipv6/conf/" + l.Name + "/accept_ra", Value: "2"})
		}
	}
	return list
}

// contested says that another program configures the device of an interface, if
// weft sets something there that both would change.
func contested(f *config.File, name string, l state.LinkFact) []state.Problem {
	i := f.Interface(name)
	path := "interface." + name
	switch {
	case l.Manager == "":
		return nil
	case len(i.Addresses) > 0:
		path += ".addresses"
	case i.MTU != 0:
		path += ".mtu"
	default:
		return nil
	}
	return []state.Problem{{
		Severity: state.Warning, Pos: f.Position(path), Path: path, Condition: state.Degraded,
		What:   fmt.Sprintf("%s configures %s too, and may take away what weft sets", l.Manager, l.Name),
		Remedy: "hand the device over: " + handOver(l.Manager, l.Name),
	}}
}

// handOver is the command by which a manager leaves a device alone.
func handOver(manager, device string) string {
	switch manager {
	case "systemd-networkd":
		return fmt.Sprintf(`printf '[Match]\nName=%[1]s\n[Link]\nUnmanaged=yes\n' > /etc/systemd/network/05-weft-%[1]s.network && networkctl reload`, device)
	case "NetworkManager":
		return fmt.Sprintf(`printf '[keyfile]\nunmanaged-devices+=interface-name:%[1]s\n' > /etc/NetworkManager/conf.d/weft-%[1]s.conf && nmcli general reload && nmcli device set %[1]s managed no`, device)
	case "ifupdown":
		return fmt.Sprintf("ifdown %[1]s, and take %[1]s out of /etc/network/interfaces", device)
	case "dhcpcd":
		return fmt.Sprintf("dhcpcd -x %[1]s, and denyinterfaces %[1]s in /etc/dhcpcd.conf", device)
	case "dhclient":
		return "dhclient -x " + device
	}
	return fmt.Sprintf("stop %s on %s", manager, device)
}
