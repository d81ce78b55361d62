package lns

import (
	"weft/internal/config"
	"weft/internal/state"
)

// subscribersMax is how many sessions the datapath's tables hold: an id of
// L2TP has 16 bits.
const subscribersMax = 65536

// Tables gives how large the tables of subscribers must be.
func Tables(f *config.File) state.Tables {
	if len(f.Names("lns"))+len(f.Names("l2tp_client")) == 0 {
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
	desired := state.Desired{state.Access{ID: id, Name: shortName(section, name), Device: device, MAC: state.DeviceMAC(device), Routed: f.Roles()&state.RoleRouted != 0}}
	desired = append(desired, garden...)
	return append(desired, state.Attachment{Device: device, Hook: state.HookEgress, Program: "lns_egress", Build: facts.Builds["lns_egress"]})
}

// needs are those of sections' devices, which may not be there yet and are only
// sent to, and of the interfaces on which tunnels may arrive: all that the file
// names.
func needs(f *config.File, facts state.Facts) []state.Need {
	var list []state.Need
	for _, device := range Made(f) {
		list = append(list, state.Need{Device: device, MAC: state.DeviceMAC(device), Taken: state.TakenNowhere})
	}
	if len(list) == 0 {
		return nil
	}
	for _, name := range f.Names("interface") {
		n := f.Need("interface."+name, name, state.RoleSubscribers)
		if l, there := facts.Link(n.Device); there && l.MAC != [6]byte{} {
			n.XDP = state.Wanted
			list = append(list, n)
		}
	}
	return list
}
