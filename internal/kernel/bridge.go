package kernel

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"weft/internal/state"
)

// Attributes of bridges and of their ports that the netlink package has no
// names for (linux/if_link.h). What the kernel does not know it passes over,
// so what matters is read back.
const (
	brSTP          = 5
	brVLANFilter   = 7
	brVLANProtocol = 8
	brGroupForward = 9
	brMulticast    = 23
	brQuerier      = 25
	brCallIPTables = 36
	brCallIP6      = 37
	brCallARP      = 38
	brDefaultPVID  = 39
	brBoolOptions  = 46
	brMaxLearned   = 49

	boolNoLinkLocalLearn = 1 << 0 // BR_BOOLOPT_NO_LL_LEARN

	portHairpin      = 4
	portGuard        = 5
	portProtect      = 6
	portFastLeave    = 7
	portLearning     = 8
	portProxyARP     = 10
	portMulticastRtr = 25
	portGroupForward = 31
	portSuppress     = 32
	portIsolated     = 33
	portLocked       = 39
	portMAB          = 40
)

// portSettings are those that weft sets, and puts back, with their sizes.
func portSettings() map[uint16]int {
	return map[uint16]int{
		portHairpin: 1, portGuard: 1, portProtect: 1, portFastLeave: 1, portLearning: 1, portProxyARP: 1,
		portMulticastRtr: 1, portGroupForward: 2, portSuppress: 1, portIsolated: 1, portLocked: 1, portMAB: 1,
	}
}

type attrs map[uint16][]byte

func (a attrs) number(kind uint16) uint64 {
	switch v := a[kind]; len(v) {
	case 1:
		return uint64(v[0])
	case 2:
		return uint64(nl.NativeEndian().Uint16(v))
	case 4:
		return uint64(nl.NativeEndian().Uint32(v))
	}
	return 0
}

func attrsOf(b []byte) attrs {
	list, err := nl.ParseRouteAttr(b)
	if err != nil {
		return nil
	}
	m := attrs{}
	for _, a := range list {
		m[a.Attr.Type&^nestedFlag] = a.Value
	}
	return m
}

// bridging is what the kernel says of a device as a bridge, and as a port of one.
type bridging struct {
	bridge attrs
	port   attrs
}

// setLinkInfo sends settings of a device's kind, or of its place in a master.
func setLinkInfo(index int, kindAttr, dataAttr int, settings map[uint16]uint64, sizes map[uint16]int) error {
	req := nl.NewNetlinkRequest(unix.RTM_NEWLINK, unix.NLM_F_ACK)
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index = int32(index)
	req.AddData(msg)
	info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	info.AddRtAttr(kindAttr, nl.NonZeroTerminated("bridge"))
	data := info.AddRtAttr(dataAttr, nil)
	for kind, value := range settings {
		switch sizes[kind] {
		case 1:
			data.AddRtAttr(int(kind), []byte{byte(value)})
		case 2:
			data.AddRtAttr(int(kind), nl.Uint16Attr(uint16(value)))
		case 4:
			data.AddRtAttr(int(kind), nl.Uint32Attr(uint32(value)))
		case 8: // struct br_boolopt_multi: values, then which of them are meant
			data.AddRtAttr(int(kind), append(nl.Uint32Attr(uint32(value)), nl.Uint32Attr(uint32(value))...))
		}
	}
	req.AddData(info)
	_, err := req.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

func (k *Kernel) setBridge(b state.Bridge) error {
	l, err := k.nl.LinkByName(b.Name)
	var missing netlink.LinkNotFoundError
	switch {
	case errors.As(err, &missing):
		made := &netlink.Bridge{LinkAttrs: netlink.NewLinkAttrs()}
		made.Name = b.Name
		if err := k.nl.LinkAdd(made); err != nil {
			return fmt.Errorf("make bridge %s: %w", b.Name, err)
		}
		if l, err = k.nl.LinkByName(b.Name); err != nil {
			return fmt.Errorf("find bridge %s: %w", b.Name, err)
		}
		if err := k.nl.LinkSetAlias(l, AliasPrefix+b.Owner); err != nil {
			return fmt.Errorf("mark %s as weft's: %w", b.Name, err)
		}
	case err != nil:
		return fmt.Errorf("find bridge %s: %w", b.Name, err)
	case !strings.HasPrefix(l.Attrs().Alias, AliasPrefix) || l.Type() != "bridge":
		return fmt.Errorf("device %s exists and is not weft's (set device = \"...\" in %s to another name)", b.Name, b.Owner)
	}
	if b.MAC != ([6]byte{}) {
		if err := k.nl.LinkSetHardwareAddr(l, b.MAC[:]); err != nil {
			return fmt.Errorf("set link address of %s: %w", b.Name, err)
		}
	}
	settings := map[uint16]uint64{
		brSTP: 0, brGroupForward: 0, brMulticast: flag(b.Snooping), brQuerier: 0,
		brCallIPTables: 0, brCallIP6: 0, brCallARP: 0, brBoolOptions: boolNoLinkLocalLearn,
	}
	sizes := map[uint16]int{brSTP: 4, brGroupForward: 2, brMulticast: 1, brQuerier: 1, brCallIPTables: 1, brCallIP6: 1, brCallARP: 1,
		brBoolOptions: 8, brVLANFilter: 1, brDefaultPVID: 2, brMaxLearned: 4}
	if b.VLANs {
		settings[brVLANFilter], settings[brDefaultPVID] = 1, 0
	}
	if b.MaxLearned != 0 {
		settings[brMaxLearned] = uint64(b.MaxLearned)
	}
	if err := setLinkInfo(l.Attrs().Index, nl.IFLA_INFO_KIND, nl.IFLA_INFO_DATA, settings, sizes); err != nil {
		return fmt.Errorf("set up bridge %s: %w", b.Name, err)
	}
	return nil
}

func flag(on bool) uint64 {
	if on {
		return 1
	}
	return 0
}

func (k *Kernel) removeBridge(b state.Bridge) error {
	l, err := k.nl.LinkByName(b.Name)
	if err != nil {
		return nil // gone already
	}
	if err := k.nl.LinkDel(l); err != nil {
		return fmt.Errorf("remove bridge %s: %w", b.Name, err)
	}
	return nil
}

// portWas is what the journal keeps of a device that weft puts into a bridge.
type portWas struct {
	Master   string            `json:"master,omitempty"`
	Settings map[uint16]uint64 `json:"settings,omitempty"`
}

func (k *Kernel) applyBridgePort(p state.BridgePort, remove bool) error {
	l, err := k.nl.LinkByName(p.Device)
	if err != nil {
		if remove {
			return k.journal.forget(p.Key())
		}
		return fmt.Errorf("find device %s: %w", p.Device, err)
	}
	if remove {
		return k.releasePort(p, l)
	}
	bridge, err := k.nl.LinkByName(p.Bridge)
	if err != nil {
		return fmt.Errorf("find bridge %s: %w", p.Bridge, err)
	}
	if err := k.notePort(p, l); err != nil {
		return err
	}
	if l.Attrs().MasterIndex != bridge.Attrs().Index {
		if err := k.nl.LinkSetMaster(l, bridge); err != nil {
			return fmt.Errorf("put %s into bridge %s: %w", p.Device, p.Bridge, err)
		}
	}
	return k.setPort(p, l.Attrs().Index)
}

func (k *Kernel) notePort(p state.BridgePort, l netlink.Link) error {
	if _, noted := k.journal.was[p.Key()]; noted {
		return nil
	}
	var was portWas
	if master := l.Attrs().MasterIndex; master != 0 {
		m, err := k.nl.LinkByIndex(master)
		if err != nil {
			return fmt.Errorf("find the master of %s: %w", p.Device, err)
		}
		was.Master, was.Settings = m.Attrs().Name, map[uint16]uint64{}
		all, err := k.look()
		if err != nil {
			return err
		}
		for kind := range portSettings() {
			if _, known := all.bridgings[l.Attrs().Index].port[kind]; known {
				was.Settings[kind] = all.bridgings[l.Attrs().Index].port.number(kind)
			}
		}
	}
	text, err := json.Marshal(was)
	if err != nil {
		return err
	}
	return k.journal.note(p.Key(), string(text))
}

func wantedPort(p state.BridgePort) map[uint16]uint64 {
	router := uint64(1) // the kernel finds out by itself
	if p.Guest {
		router = 0
	}
	return map[uint16]uint64{
		portHairpin: 0, portGuard: 0, portProtect: 0, portFastLeave: 0, portLearning: flag(!p.Locked), portProxyARP: 0,
		portMulticastRtr: router, portGroupForward: 0, portSuppress: flag(p.Suppress),
		portIsolated: flag(p.Isolated), portLocked: flag(p.Locked), portMAB: 0,
	}
}

func (k *Kernel) setPort(p state.BridgePort, index int) error {
	if err := setLinkInfo(index, nl.IFLA_INFO_SLAVE_KIND, nl.IFLA_INFO_SLAVE_DATA, wantedPort(p), portSettings()); err != nil {
		return fmt.Errorf("set up %s as a port of %s: %w", p.Device, p.Bridge, err)
	}
	return nil
}

func (k *Kernel) releasePort(p state.BridgePort, l netlink.Link) error {
	var was portWas
	if text, noted := k.journal.was[p.Key()]; noted {
		if err := json.Unmarshal([]byte(text), &was); err != nil {
			return fmt.Errorf("read what %s was: %w", p.Device, err)
		}
	}
	if err := k.nl.LinkSetNoMaster(l); err != nil {
		return fmt.Errorf("take %s out of bridge %s: %w", p.Device, p.Bridge, err)
	}
	if master, err := k.nl.LinkByName(was.Master); was.Master != "" && err == nil {
		if err := k.nl.LinkSetMaster(l, master); err != nil {
			return fmt.Errorf("put %s back into %s: %w", p.Device, was.Master, err)
		}
		if len(was.Settings) > 0 {
			if err := setLinkInfo(l.Attrs().Index, nl.IFLA_INFO_SLAVE_KIND, nl.IFLA_INFO_SLAVE_DATA, was.Settings, portSettings()); err != nil {
				return fmt.Errorf("put the settings of %s in %s back: %w", p.Device, was.Master, err)
			}
		}
	}
	return k.journal.forget(p.Key())
}

func (k *Kernel) applyBridgeVLAN(v state.BridgeVLAN, remove bool) error {
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

func bridgeEntry(index int, a state.BridgeAddress) *netlink.Neigh {
	return &netlink.Neigh{
		LinkIndex: index, Family: unix.AF_BRIDGE, State: netlink.NUD_NOARP, Flags: netlink.NTF_MASTER,
		HardwareAddr: a.MAC[:], Vlan: int(a.VLAN),
	}
}

func (k *Kernel) applyBridgeAddress(a state.BridgeAddress, remove bool) error {
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

func (k *Kernel) applyNeighbour(n state.Neighbour, remove bool) error {
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
