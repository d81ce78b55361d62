package lns

import (
	"weft/internal/config"
	"weft/internal/state"
)

// subscribersMax is the size of the datapath's session tables: an L2TP session id has
// 16 bits.
const subscribersMax = 65536

// Tables returns the sizes of the tables of subscribers.
func Tables(f *config.File) state.Tables {
	if len(f.Names("lns"))+len(f.Names("l2tp_client")) == 0 {
		return state.Tables{}
	}
	return state.Tables{Subscribers: subscribersMax}
}

// shortName is a section's name in the datapath. Device names are shorter than the
// field, so it is never truncated.
func shortName(section, name string) string {
	if section == "l2tp_client" {
		return "c/" + name
	}
	return name
}

// onDevice is the datapath's configuration of a section's device.
func onDevice(f *config.File, facts state.Facts, section, name, device string, id int, walledGarden []state.Object) state.Desired {
	desired := state.Desired{state.LNS{ID: id, Name: shortName(section, name), Device: device, MAC: state.DeviceMAC(device), Routed: f.Roles()&state.RoleRouted != 0}}
	desired = append(desired, walledGarden...)
	return append(desired, state.Attachment{Device: device, Hook: state.HookEgress, Program: "lns_egress", Build: facts.Builds["lns_egress"]})
}

// needs are the datapath's configurations of sections' devices, which may not exist yet
// and are only sent to, and of the interfaces on which tunnels may arrive: all
// interfaces in the file.
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
