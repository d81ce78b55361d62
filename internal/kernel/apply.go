package kernel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weft/internal/state"
)

// Apply carries out one step.
func (k *Kernel) Apply(ctx context.Context, step state.Step) error {
	remove := step.Op == state.Remove
	k.recent.Store(nil)
	switch o := step.Object.(type) {
	case state.Device:
		if remove {
			return k.removeDevice(o)
		}
		return k.setDevice(o)
	case state.Wire:
		if remove {
			return k.removeWire(o.Name)
		}
		return k.setWire(ctx, o)
	case state.VXLAN:
		if remove {
			return k.removeWire(o.Name)
		}
		return k.setVXLAN(o)
	case state.Link:
		if remove {
			return k.restoreLink(o)
		}
		return k.setLink(o)
	case state.Bridge:
		if remove {
			return k.removeBridge(o)
		}
		return k.setBridge(o)
	case state.GuestDevice:
		if remove {
			return k.removeGuestDevice(o)
		}
		return k.setGuestDevice(o)
	case state.NoOffloads:
		return k.applyNoOffloads(o, remove)
	case state.BridgePort:
		return k.applyBridgePort(o, remove)
	case state.BridgeVLAN:
		return k.applyBridgeVLAN(o, remove)
	case state.BridgeAddress:
		return k.applyBridgeAddress(o, remove)
	case state.Neighbour:
		return k.applyNeighbour(o, remove)
	case state.AllMulticast:
		return k.applyAllMulticast(o, remove)
	case state.Promiscuous:
		return k.applyPromiscuous(o, remove)
	case state.TagsInFrames:
		return k.applyTags(o, remove)
	case state.Address:
		return k.applyAddress(o, remove)
	case state.Route:
		return k.applyRoute(o, remove)
	case state.RefusalTrace:
		return k.applyRefusalTrace(ctx, o, remove)
	case state.Sysctl:
		if remove {
			return k.restoreSysctl(o)
		}
		return k.setSysctl(o)
	}
	return fmt.Errorf("the kernel has no such thing: %s", step.Object)
}

func (k *Kernel) setDevice(d state.Device) error {
	existing, err := k.nl.LinkByName(d.Name)
	var missing netlink.LinkNotFoundError
	switch {
	case errors.As(err, &missing):
		tap := &netlink.Tuntap{LinkAttrs: netlink.NewLinkAttrs(), Mode: netlink.TUNTAP_MODE_TAP, Flags: netlink.TUNTAP_NO_PI}
		tap.Name = d.Name
		if err := k.nl.LinkAdd(tap); err != nil {
			return fmt.Errorf("make tap device %s: %w", d.Name, err)
		}
		if existing, err = k.nl.LinkByName(d.Name); err != nil {
			return fmt.Errorf("find tap device %s: %w", d.Name, err)
		}
		if err := k.nl.LinkSetAlias(existing, AliasPrefix+d.Owner); err != nil {
			return fmt.Errorf("mark %s as weft's: %w", d.Name, err)
		}
	case err != nil:
		return fmt.Errorf("find device %s: %w", d.Name, err)
	case !strings.HasPrefix(existing.Attrs().Alias, AliasPrefix):
		return fmt.Errorf("device %s exists and is not weft's (set device = \"...\" in %s to another name)", d.Name, d.Owner)
	}
	if err := k.nl.LinkSetHardwareAddr(existing, d.MAC[:]); err != nil {
		return fmt.Errorf("set link address of %s: %w", d.Name, err)
	}
	if err := k.nl.LinkSetARPOff(existing); err != nil {
		return fmt.Errorf("turn off ARP on %s: %w", d.Name, err)
	}
	if err := k.nl.LinkSetMTU(existing, d.MTU); err != nil {
		return fmt.Errorf("set MTU %d on %s: %w", d.MTU, d.Name, err)
	}
	// nobody talks to the device itself: it needs no link-local address
	if err := writeSysctl("net/ipv6/conf/"+d.Name+"/addr_gen_mode", "1"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := k.nl.LinkSetUp(existing); err != nil {
		return fmt.Errorf("set %s up: %w", d.Name, err)
	}
	return nil
}

func (k *Kernel) removeDevice(d state.Device) error {
	l, err := k.nl.LinkByName(d.Name)
	if err != nil {
		return nil // gone already
	}
	if err := k.nl.LinkDel(l); err != nil {
		return fmt.Errorf("remove device %s: %w", d.Name, err)
	}
	return nil
}

func (k *Kernel) setLink(want state.Link) error {
	l, err := k.nl.LinkByName(want.Name)
	if err != nil {
		return fmt.Errorf("find device %s: %w", want.Name, err)
	}
	up := l.Attrs().RawFlags&unix.IFF_UP != 0
	if err := k.journal.note(want.Key(), strconv.FormatBool(up)); err != nil {
		return err
	}
	if err := k.setMTU(l, want.MTU); err != nil {
		return err
	}
	if err := k.nl.LinkSetUp(l); err != nil {
		return fmt.Errorf("set %s up: %w", want.Name, err)
	}
	return nil
}

// mtuKey is the journal's key for the MTU of a device, which is put back as
// soon as the file says nothing of it any more.
func mtuKey(device string) string { return state.Link{Name: device}.Key() + " mtu" }

// setMTU sets an MTU; zero puts back what was there before weft set one.
func (k *Kernel) setMTU(l netlink.Link, mtu int) error {
	a := l.Attrs()
	if mtu == 0 {
		return k.restoreMTU(l)
	}
	if err := k.journal.note(mtuKey(a.Name), strconv.Itoa(a.MTU)); err != nil {
		return err
	}
	if mtu == a.MTU {
		return nil
	}
	if err := k.nl.LinkSetMTU(l, mtu); err != nil {
		return fmt.Errorf("set MTU %d on %s: %w", mtu, a.Name, err)
	}
	return nil
}

func (k *Kernel) restoreMTU(l netlink.Link) error {
	key := mtuKey(l.Attrs().Name)
	was, changed := k.journal.was[key]
	if !changed {
		return nil
	}
	mtu, err := strconv.Atoi(was)
	if err == nil {
		err = k.nl.LinkSetMTU(l, mtu)
	}
	if err != nil {
		return fmt.Errorf("put MTU %s back on %s: %w", was, l.Attrs().Name, err)
	}
	return k.journal.forget(key)
}

func (k *Kernel) restoreLink(o state.Link) error {
	if l, err := k.nl.LinkByName(o.Name); err == nil {
		if err := k.restoreMTU(l); err != nil {
			return err
		}
		if k.journal.was[o.Key()] == "false" {
			if err := k.nl.LinkSetDown(l); err != nil {
				return fmt.Errorf("set %s down: %w", o.Name, err)
			}
		}
	}
	return errors.Join(k.journal.forget(mtuKey(o.Name)), k.journal.forget(o.Key()))
}

func (k *Kernel) applyAllMulticast(o state.AllMulticast, remove bool) error {
	l, err := k.nl.LinkByName(o.Device)
	if remove {
		if err == nil {
			if err := k.nl.LinkSetAllmulticastOff(l); err != nil {
				return fmt.Errorf("set allmulticast off on %s: %w", o.Device, err)
			}
		}
		return k.journal.forget(o.Key())
	}
	if err != nil {
		return fmt.Errorf("find device %s: %w", o.Device, err)
	}
	if err := k.journal.note(o.Key(), "off"); err != nil {
		return err
	}
	if err := k.nl.LinkSetAllmulticastOn(l); err != nil {
		return fmt.Errorf("set allmulticast on %s: %w", o.Device, err)
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

func (k *Kernel) applyAddress(o state.Address, remove bool) error {
	l, err := k.nl.LinkByName(o.Device)
	if remove {
		if err == nil {
			err = k.nl.AddrDel(l, &netlink.Addr{IPNet: ipNet(o.Prefix)})
		}
		var missing netlink.LinkNotFoundError
		if err != nil && !errors.As(err, &missing) && !errors.Is(err, unix.EADDRNOTAVAIL) {
			return fmt.Errorf("remove address %s from %s: %w", o.Prefix, o.Device, err)
		}
		return k.journal.forget(o.Key())
	}
	if err != nil {
		return fmt.Errorf("find device %s: %w", o.Device, err)
	}
	if err := k.journal.note(o.Key(), "absent"); err != nil {
		return err
	}
	add := &netlink.Addr{IPNet: ipNet(o.Prefix)}
	if o.Prefix.Addr().Is6() {
		// a router's address must work at once, not after a second of detection
		add.Flags = unix.IFA_F_NODAD
	}
	if err := k.nl.AddrReplace(l, add); err != nil {
		return fmt.Errorf("add address %s to %s: %w", o.Prefix, o.Device, err)
	}
	return nil
}

func (k *Kernel) applyRoute(o state.Route, remove bool) error {
	l, err := k.nl.LinkByName(o.Device)
	if err != nil {
		if remove {
			return nil // went with its device
		}
		return fmt.Errorf("find device %s: %w", o.Device, err)
	}
	r := &netlink.Route{
		LinkIndex: l.Attrs().Index, Dst: ipNet(o.Prefix), Protocol: RouteProtocol,
		Table: unix.RT_TABLE_MAIN, MTU: o.MTU, Scope: netlink.SCOPE_LINK,
	}
	if o.Prefix.Addr().Is6() {
		r.Scope = netlink.SCOPE_UNIVERSE
	}
	if remove {
		if err := k.nl.RouteDel(r); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("remove route %s dev %s: %w", o.Prefix, o.Device, err)
		}
		return nil
	}
	if err := k.nl.RouteReplace(r); err != nil {
		return fmt.Errorf("add route %s dev %s: %w", o.Prefix, o.Device, err)
	}
	return nil
}

func (k *Kernel) setSysctl(o state.Sysctl) error {
	was, err := readSysctl(o.Name)
	if err != nil {
		return err
	}
	if err := k.journal.note(o.Key(), was); err != nil {
		return err
	}
	return writeSysctl(o.Name, o.Value)
}

func (k *Kernel) restoreSysctl(o state.Sysctl) error {
	if was, ok := k.journal.was[o.Key()]; ok {
		if err := writeSysctl(o.Name, was); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return k.journal.forget(o.Key())
}

func writeSysctl(name, value string) error {
	if err := os.WriteFile(sysctlPath(name), []byte(value), 0o644); err != nil {
		return fmt.Errorf("write sysctl %s: %w", name, err)
	}
	return nil
}
