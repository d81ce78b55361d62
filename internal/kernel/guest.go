package kernel

import (
	"errors"
	"fmt"
	"os/user"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weft/internal/ethtool"
	"weft/internal/state"
)

func (k *Kernel) setGuestDevice(g state.GuestDevice) error {
	l, err := k.nl.LinkByName(g.Name)
	var missing netlink.LinkNotFoundError
	switch {
	case errors.As(err, &missing):
	case err != nil:
		return fmt.Errorf("find device %s: %w", g.Name, err)
	case !strings.HasPrefix(l.Attrs().Alias, AliasPrefix):
		return fmt.Errorf("device %s exists and is not weft's (leave kind out in %s to use it as it is)", g.Name, g.Owner)
	default: // its kind or its owner changed: a guest has to plug in anew anyway
		if err := k.nl.LinkDel(l); err != nil {
			return fmt.Errorf("replace device %s: %w", g.Name, err)
		}
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
	if err := k.nl.LinkSetAlias(l, AliasPrefix+owner); err != nil {
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
	if g.Kind == "veth" {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = g.Name
		return k.nl.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: g.Peer})
	}
	return makeTap(g)
}

// makeTap makes a tap device that stays. The netlink package would set an owner
// and a group always, and who opens the device has to be both. Whether its
// frames carry virtio headers is the opener's to choose, the queues are not.
func makeTap(g state.GuestDevice) error {
	owner, group, err := identities(g)
	if err != nil {
		return err
	}
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open /dev/net/tun: %w", err)
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq(g.Name)
	if err != nil {
		return err
	}
	flags := uint16(unix.IFF_TAP | unix.IFF_NO_PI)
	if g.MultiQueue {
		flags |= unix.IFF_MULTI_QUEUE
	}
	request.SetUint16(flags)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		return err
	}
	if g.User != "" || g.Group == "" {
		if err := unix.IoctlSetInt(fd, unix.TUNSETOWNER, int(owner)); err != nil {
			return fmt.Errorf("set its owner: %w", err)
		}
	}
	if g.Group != "" {
		if err := unix.IoctlSetInt(fd, unix.TUNSETGROUP, int(group)); err != nil {
			return fmt.Errorf("set its group: %w", err)
		}
	}
	return unix.IoctlSetInt(fd, unix.TUNSETPERSIST, 1)
}

// identities gives the numbers of a tap's owner and group; 0 for none.
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

func (k *Kernel) removeGuestDevice(g state.GuestDevice) error {
	l, err := k.nl.LinkByName(g.Name)
	if err != nil {
		return nil // gone already
	}
	if err := k.nl.LinkDel(l); err != nil {
		return fmt.Errorf("remove device %s: %w", g.Name, err)
	}
	return nil
}

// guestObject reads a device that was made for a guest. The bridge's end of a
// veth pair stands for both.
func guestObject(l netlink.Link, links []netlink.Link, wanted map[string]state.Object) (state.GuestDevice, bool) {
	a := l.Attrs()
	owner, marked := strings.CutPrefix(a.Alias, AliasPrefix)
	g := state.GuestDevice{Name: a.Name, Owner: owner}
	want, isWanted := wanted[g.Key()].(state.GuestDevice)
	if !marked || !strings.HasPrefix(owner, "bridge.") || a.RawFlags&unix.IFF_UP == 0 && isWanted {
		return g, false
	}
	switch l := l.(type) {
	case *netlink.Veth:
		peer, known := linkNames(links)[a.ParentIndex]
		if !known {
			peer = want.Peer // in a guest's namespace
		}
		// the other end is no object of its own
		if other, ok := wanted[(state.GuestDevice{Name: peer}).Key()].(state.GuestDevice); ok && other.Peer == a.Name {
			return g, false
		}
		if !isWanted && a.Index < a.ParentIndex {
			return g, false // of a pair that goes, one
		}
		g.Kind, g.Peer = "veth", peer
	case *netlink.Tuntap:
		g.Kind, g.MultiQueue = "tap", l.Flags&netlink.TUNTAP_MULTI_QUEUE != 0
		owner, group, err := identities(want)
		if err == nil && isWanted && owner == l.Owner && group == l.Group {
			g.User, g.Group = want.User, want.Group
		}
	default:
		return g, false
	}
	return g, true
}

// Offloads that make frames other than they are on a wire.
var offloads = []ethtool.Flag{ethtool.SegmentTCP, ethtool.Segment, ethtool.Receive, ethtool.TransmitChecksum, ethtool.ScatterGather}

func (k *Kernel) offloadsMatter(o state.NoOffloads, wanted map[string]state.Object) bool {
	_, noted := k.journal.was[o.Key()]
	return noted || wanted[o.Key()] != nil
}

func offloadsOff(device string) (bool, error) {
	for _, o := range offloads {
		on, err := ethtool.Get(device, o)
		switch {
		case errors.Is(err, unix.EOPNOTSUPP):
		case err != nil:
			return false, fmt.Errorf("read the offloads of %s: %w", device, err)
		case on != 0:
			return false, nil
		}
	}
	return true, nil
}

func (k *Kernel) applyNoOffloads(o state.NoOffloads, remove bool) error {
	if _, err := k.nl.LinkByName(o.Device); err != nil && remove {
		return k.journal.forget(o.Key())
	}
	if remove {
		was, noted := k.journal.was[o.Key()]
		for i := range offloads {
			// checksums first: segments need them
			if j := len(offloads) - 1 - i; noted && j < len(was) && was[j] == '1' {
				if err := ethtool.Switch(o.Device, offloads[j], true); err != nil {
					return fmt.Errorf("put the offloads of %s back: %w", o.Device, err)
				}
			}
		}
		return k.journal.forget(o.Key())
	}
	was := make([]byte, len(offloads))
	for i, one := range offloads {
		on, err := ethtool.Get(o.Device, one)
		was[i] = '0'
		if err == nil && on != 0 {
			was[i] = '1'
		}
	}
	if err := k.journal.note(o.Key(), string(was)); err != nil {
		return err
	}
	for i, one := range offloads {
		if was[i] == '0' {
			continue
		}
		if err := ethtool.Switch(o.Device, one, false); err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
			return fmt.Errorf("set the offloads of %s off: %w", o.Device, err)
		}
	}
	return nil
}
