package kernel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weft/internal/kernel/nlconn"
	"weft/internal/state"
)

func (k *Kernel) applyBridgeVLAN(_ context.Context, v state.BridgeVLAN, remove bool) error {
	l, err := k.nl.LinkByName(v.Device)
	if err != nil {
		if remove {
			return nil
		}
		return fmt.Errorf("find device %s: %w", v.Device, err)
	}
	if remove {
		if err := k.nl.BridgeVlanDel(l, v.VLAN, v.Untagged, v.Untagged, v.Self, false); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EOPNOTSUPP) {
			return fmt.Errorf("take VLAN %d off %s: %w", v.VLAN, v.Device, err)
		}
		return nil
	}
	if err := k.nl.BridgeVlanAdd(l, v.VLAN, v.Untagged, v.Untagged, v.Self, false); err != nil {
		return fmt.Errorf("let VLAN %d through %s: %w", v.VLAN, v.Device, err)
	}
	return nil
}

func (k *Kernel) observeVLANs(v *view) (found []state.BridgeVLAN, err error) {
	if v.bridges == nil {
		return nil, nil
	}
	vlans, err := nlconn.Listed(k.nl.BridgeVlanList)
	if err != nil {
		return nil, fmt.Errorf("list VLANs of bridges: %w", err)
	}
	for _, l := range v.links {
		a := l.Attrs()
		if !v.bridges[a.Index] && !v.bridges[a.MasterIndex] {
			continue
		}
		for _, e := range vlans[int32(a.Index)] {
			o := state.BridgeVLAN{Device: a.Name, VLAN: e.Vid, Untagged: e.PortVID() && e.EngressUntag(), Self: v.bridges[a.Index]}
			if e.PortVID() != e.EngressUntag() {
				continue // not as weft makes them: set again
			}
			found = append(found, o)
		}
	}
	return found, nil
}

func bridgeEntry(index int, a state.BridgeAddress) *netlink.Neigh {
	return &netlink.Neigh{
		LinkIndex: index, Family: unix.AF_BRIDGE, State: netlink.NUD_NOARP, Flags: netlink.NTF_MASTER,
		HardwareAddr: a.MAC[:], Vlan: int(a.VLAN),
	}
}

func (k *Kernel) applyBridgeAddress(_ context.Context, a state.BridgeAddress, remove bool) error {
	l, err := k.nl.LinkByName(a.Device)
	if err != nil {
		if remove {
			return nil
		}
		return fmt.Errorf("find device %s: %w", a.Device, err)
	}
	entry := bridgeEntry(l.Attrs().Index, a)
	if remove {
		// the static ones of a port go with it
		if err := k.nl.NeighDel(entry); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EOPNOTSUPP) {
			return fmt.Errorf("remove %s: %w", a, err)
		}
		return nil
	}
	if err := k.nl.NeighSet(entry); err != nil {
		return fmt.Errorf("add %s: %w", a, err)
	}
	return nil
}

func (k *Kernel) applyNeighbour(_ context.Context, n state.Neighbour, remove bool) error {
	l, err := k.nl.LinkByName(n.Device)
	if err != nil {
		if remove {
			return nil
		}
		return fmt.Errorf("find device %s: %w", n.Device, err)
	}
	entry := &netlink.Neigh{LinkIndex: l.Attrs().Index, State: netlink.NUD_PERMANENT, IP: n.Addr.AsSlice(), HardwareAddr: n.MAC[:]}
	if remove {
		if err := k.nl.NeighDel(entry); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("remove %s: %w", n, err)
		}
		return nil
	}
	if err := k.nl.NeighSet(entry); err != nil {
		return fmt.Errorf("add %s: %w", n, err)
	}
	return nil
}

// observeBridgeAddresses lists the addresses that weft put into its bridges.
func (k *Kernel) observeBridgeAddresses(v *view) (found []state.BridgeAddress, err error) {
	if len(v.bridges) == 0 {
		return nil, nil
	}
	entries, err := k.neighbours(0, unix.AF_BRIDGE)
	if err != nil {
		return nil, fmt.Errorf("list addresses of bridges: %w", err)
	}
	for _, e := range entries {
		// a port's own address is permanent, an entry of weft's static
		if !v.bridges[e.MasterIndex] || e.State != netlink.NUD_NOARP || len(e.HardwareAddr) != 6 {
			continue
		}
		found = append(found, state.BridgeAddress{Device: v.names[e.LinkIndex], MAC: [6]byte(e.HardwareAddr), VLAN: uint16(e.Vlan)})
	}
	return found, nil
}

// observeNeighbours lists the neighbours that stay, on weft's bridges.
func (k *Kernel) observeNeighbours(v *view) (found []state.Neighbour, err error) {
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		for index := range v.bridges {
			list, err := k.neighbours(index, family)
			if err != nil {
				return nil, fmt.Errorf("list neighbours of %s: %w", v.names[index], err)
			}
			for _, n := range list {
				addr, ok := netip.AddrFromSlice(n.IP)
				if ok && n.State == netlink.NUD_PERMANENT && len(n.HardwareAddr) == 6 {
					found = append(found, state.Neighbour{Device: v.names[index], Addr: addr.Unmap(), MAC: [6]byte(n.HardwareAddr)})
				}
			}
		}
	}
	return found, nil
}
