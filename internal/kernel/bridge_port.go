package kernel

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"

	"weft/internal/state"
)

// portWas is what the journal keeps of a device that weft puts into a bridge.
type portWas struct {
	Master   string            `json:"master,omitempty"`
	Settings map[uint16]uint64 `json:"settings,omitempty"`
}

func (k *Kernel) applyBridgePort(_ context.Context, p state.BridgePort, remove bool) error {
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
	// the addresses at a locked port stand in the bridge's table: frames to
	// unknown addresses are for other ports
	return map[uint16]uint64{
		portHairpin: 0, portGuard: 0, portProtect: 0, portFastLeave: 0,
		portLearning: flag(!p.Locked), portUnicastFlood: flag(!p.Locked), portProxyARP: 0,
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

// portObject reads a port that is wanted or that weft has put into a bridge.
func (k *Kernel) observeBridgePort(v *view, l netlink.Link) (p state.BridgePort, is bool, err error) {
	a := l.Attrs()
	data := v.bridgings[a.Index].port
	p = state.BridgePort{Device: a.Name, Bridge: v.names[a.MasterIndex]}
	want, isWanted := v.wanted[p.Key()].(state.BridgePort)
	_, noted := k.journal.was[p.Key()]
	if !noted || data == nil && isWanted {
		return p, false, nil // not in a bridge, or not by weft: it has to be put there
	}
	if data == nil {
		return p, true, nil // to be forgotten
	}
	p.Isolated, p.Locked = data.number(portIsolated) == 1, data.number(portLocked) == 1
	p.Suppress, p.Guest = data.number(portSuppress) == 1, data.number(portMulticastRtr) == 0
	if isWanted && want == p {
		for kind, value := range wantedPort(p) {
			if _, known := data[kind]; known && data.number(kind) != value {
				p.Bridge += ", changed by others"
				break
			}
		}
	}
	return p, true, nil
}
