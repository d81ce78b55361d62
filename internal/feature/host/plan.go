// Package host looks after what [router] and [interface.NAME] say of the
// machine itself: forwarding, devices, addresses.
package host

import (
	"fmt"
	"slices"
	"strings"

	"weft/internal/config"
	"weft/internal/state"
)

// Plan gives what [router] and the [interface.NAME] sections want to exist.
// It is pure.
func Plan(f *config.File, facts state.Facts) state.Part {
	var desired state.Desired
	var problems []state.Problem
	if f.Router().Forwarding {
		desired = append(desired,
			state.Sysctl{Name: "net/ipv4/ip_forward", Value: "1"},
			state.Sysctl{Name: "net/ipv6/conf/all/forwarding", Value: "1"},
		)
	}
	for _, name := range f.Names("interface") {
		i := f.Interface(name)
		_, there := facts.Link(i.Device)
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
					Remedy: "what is asked of it is done whenever it is there",
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
	return state.Part{Feature: "host", Objects: desired, Problems: problems}
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
