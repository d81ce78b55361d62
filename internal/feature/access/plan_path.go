package access

import (
	"weft/internal/config"
	"weft/internal/state"
)

// subscribersMax is how many sessions the datapath's tables hold: an id of
// L2TP has 16 bits.
const subscribersMax = 65536

// Tables gives how large the tables of subscribers must be.
func Tables(f *config.File) state.Tables {
	if len(f.Names("access"))+len(f.Names("l2tp_client")) == 0 {
		return state.Tables{}
	}
	return state.Tables{Subscribers: subscribersMax}
}

// shortName is a section as the datapath keeps it. Devices' names have room for
// fewer characters, so nothing is ever cut off.
func shortName(section, name string) string {
	if section == "l2tp_client" {
		return "c/" + name
	}
	return name
}

// onDevice are the programs' side of a section's device.
func onDevice(f *config.File, facts state.Facts, section, name, device string, id int, garden []state.Object) state.Desired {
	mac := state.DeviceMAC(device)
	desired := state.Desired{state.Access{ID: id, Name: shortName(section, name), Device: device, MAC: mac, Routed: f.Roles()&state.RoleRouted != 0}}
	desired = append(desired, garden...)
	return append(desired,
		state.Port{Device: device, MAC: mac},
		state.Attachment{Device: device, Hook: state.HookEgress, Program: "access_egress", Build: facts.Builds["access_egress"]},
	)
}

// underlay are the programs on the interfaces on which tunnels may arrive: all
// that the file names.
func underlay(f *config.File, facts state.Facts) state.Desired {
	var ports, attachments state.Desired
	for _, name := range f.Names("interface") {
		i := f.Interface(name)
		l, there := facts.Link(i.Device)
		if !there || l.MAC == [6]byte{} {
			continue
		}
		ports = append(ports, state.Port{Device: l.Name, MAC: l.MAC, Roles: state.RoleSubscribers.With(state.RoleXDPOut, l.XDPTarget)})
		attachments = append(attachments, state.Attachment{Device: l.Name, Hook: state.HookIngress, Program: "ingress_tc", Build: facts.Builds["ingress_tc"]})
		if l.XDP && (i.Hook == config.HookXDP || i.Hook == config.HookAuto && l.Kind == "") {
			attachments = append(attachments, state.Attachment{Device: l.Name, Hook: state.HookXDP, Program: "ingress_xdp", Build: facts.Builds["ingress_xdp"]})
		}
	}
	return append(ports, attachments...)
}
