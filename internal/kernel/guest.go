package kernel

import (
	"context"
	"fmt"
	"os/user"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weft/internal/kernel/mark"
	"weft/internal/state"
)

func (k *Kernel) applyGuestDevice(_ context.Context, g state.GuestDevice, remove bool) error {
	if remove {
		return k.deleteDevice(g.Name)
	}
	l, err := k.existing(g.Name, "leave kind out in "+g.Owner+" to use it as it is")
	if err == nil && l != nil { // its kind or its owner changed: the guest has to attach to it again anyway
		err = k.deleteLink(l)
	}
	if err != nil {
		return err
	}
	if err := k.makeGuestDevice(g); err != nil {
		return fmt.Errorf("make %s device %s: %w", g.Kind, g.Name, err)
	}
	for _, name := range []string{g.Name, g.Peer} {
		if name == "" {
			continue
		}
		if err := k.prepareEnd(name, g.Owner); err != nil {
			return err
		}
	}
	return nil
}

// prepareEnd marks a device as weft's, and keeps the host silent on it.
func (k *Kernel) prepareEnd(name, owner string) error {
	l, err := k.nl.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find device %s: %w", name, err)
	}
	if err := k.nl.LinkSetAlias(l, mark.AliasPrefix+owner); err != nil {
		return fmt.Errorf("mark %s as weft's: %w", name, err)
	}
	if err := writeSysctl("net/ipv6/conf/"+name+"/disable_ipv6", "1"); err != nil {
		return err
	}
	if err := k.nl.LinkSetARPOff(l); err != nil {
		return fmt.Errorf("turn off ARP on %s: %w", name, err)
	}
	if err := k.nl.LinkSetUp(l); err != nil {
		return fmt.Errorf("set %s up: %w", name, err)
	}
	return nil
}

func (k *Kernel) makeGuestDevice(g state.GuestDevice) error {
	if g.Kind != "veth" {
		_, err := k.makeTap(g)
		return err
	}
	err := k.nl.LinkAdd(&netlink.Veth{LinkAttrs: newLink(g.Name), PeerName: g.Peer})
	if err == nil {
		_, err = k.mark(g.Name, g.Owner)
	}
	return err
}

// identities returns the numbers of a tap's owner and group; 0 for none.
func identities(g state.GuestDevice) (owner, group uint32, err error) {
	if g.User != "" {
		u, err := user.Lookup(g.User)
		if err != nil {
			return 0, 0, fmt.Errorf("owner of %s: %w", g.Name, err)
		}
		if owner, err = number(u.Uid); err != nil {
			return 0, 0, err
		}
	}
	if g.Group != "" {
		u, err := user.LookupGroup(g.Group)
		if err != nil {
			return 0, 0, fmt.Errorf("group of %s: %w", g.Name, err)
		}
		if group, err = number(u.Gid); err != nil {
			return 0, 0, err
		}
	}
	return owner, group, nil
}

func number(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	return uint32(n), err
}

// observeGuestDevice reads a device that was made for a guest. The bridge's end of a
// veth pair stands for both.
func (k *Kernel) observeGuestDevice(v *view, l netlink.Link) (g state.GuestDevice, is bool, err error) {
	a := l.Attrs()
	owner, marked := strings.CutPrefix(a.Alias, mark.AliasPrefix)
	g = state.GuestDevice{Name: a.Name, Owner: owner}
	want, isWanted := v.wanted[g.Key()].(state.GuestDevice)
	if !marked || !strings.HasPrefix(owner, "bridge.") || a.RawFlags&unix.IFF_UP == 0 && isWanted {
		return g, false, nil
	}
	switch l := l.(type) {
	case *netlink.Veth:
		peer, known := v.names[a.ParentIndex]
		if !known {
			peer = want.Peer // in a guest's namespace
		}
		// the other end is no object of its own
		if other, ok := v.wanted[(state.GuestDevice{Name: peer}).Key()].(state.GuestDevice); ok && other.Peer == a.Name {
			return g, false, nil
		}
		if !isWanted && a.Index < a.ParentIndex {
			return g, false, nil // of a pair that goes, one
		}
		g.Kind, g.Peer = "veth", peer
	case *netlink.Tuntap:
		g.Kind, g.MultiQueue = "tap", l.Flags&netlink.TUNTAP_MULTI_QUEUE != 0
		owner, group, err := identities(want)
		if err == nil && isWanted && owner == l.Owner && group == l.Group {
			g.User, g.Group = want.User, want.Group
		}
	default:
		return g, false, nil
	}
	return g, true, nil
}
