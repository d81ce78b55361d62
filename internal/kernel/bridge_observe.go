package kernel

import (
	"strings"

	"github.com/vishvananda/netlink"

	"weft/internal/kernel/mark"
	"weft/internal/state"
)

func (k *Kernel) observeBridge(v *view, l netlink.Link) (o state.Bridge, is bool, err error) {
	a := l.Attrs()
	b, bridge := l.(*netlink.Bridge)
	if !bridge || !v.bridges[a.Index] {
		return o, false, nil
	}
	o = bridgeObject(b, strings.TrimPrefix(a.Alias, mark.AliasPrefix), v.bridgings[a.Index].bridge)
	if want, ok := v.wanted[o.Key()].(state.Bridge); ok && want.MAC != ([6]byte{}) && len(a.HardwareAddr) == 6 {
		o.MAC = [6]byte(a.HardwareAddr)
	}
	return o, true, nil
}

// bridgesMatter reports whether the bridge tables need to be read: hosts without
// bridges of weft's are spared that.
func (k *Kernel) bridgesMatter(links []netlink.Link, wanted map[string]state.Object) bool {
	for _, o := range wanted {
		switch o.(type) {
		case state.Bridge, state.GuestDevice, state.NoOffloads:
			return true
		}
	}
	for _, l := range links {
		switch l.Type() {
		case "bridge", "veth", "tuntap":
			if strings.HasPrefix(l.Attrs().Alias, mark.AliasPrefix) {
				return true
			}
		}
	}
	for key := range k.journal.was {
		if strings.HasPrefix(key, "bridge-port ") || strings.HasPrefix(key, "no-offloads ") {
			return true
		}
	}
	return false
}

func bridgeObject(b *netlink.Bridge, owner string, data attrs) state.Bridge {
	o := state.Bridge{
		Name: b.Name, Owner: owner, VLANs: data.number(brVLANFilter) == 1,
		Snooping: data.number(brMulticast) == 1, MaxLearned: uint32(data.number(brMaxLearned)),
	}
	off := []uint16{brSTP, brGroupForward, brQuerier, brCallIPTables, brCallIP6, brCallARP}
	if o.VLANs {
		off = append(off, brDefaultPVID)
	}
	for _, kind := range off {
		if data.number(kind) != 0 {
			o.Owner += ", changed by others" // differs from what is wanted, and is set again
			break
		}
	}
	return o
}

// bridgeFacts fills in what a bridge's kernel can do, and a veth's other end.
func bridgeFacts(f *state.LinkFact, l netlink.Link, names map[int]string, data attrs) {
	switch l.(type) {
	case *netlink.Bridge:
		_, f.VLANAware = data[brVLANProtocol]
		_, f.LimitsMAC = data[brMaxLearned]
	case *netlink.Veth:
		if l.Attrs().NetNsID < 0 {
			f.Peer = names[l.Attrs().ParentIndex]
		}
	}
}
