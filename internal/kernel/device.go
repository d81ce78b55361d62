package kernel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weft/internal/kernel/mark"
	"weft/internal/state"
)

func (k *Kernel) applyDevice(_ context.Context, d state.Device, remove bool) error {
	if remove {
		return k.deleteDevice(d.Name)
	}
	existing, err := k.existing(d.Name, otherName(d.Owner))
	if err == nil && existing == nil {
		existing, err = k.makeTap(state.GuestDevice{Name: d.Name, Owner: d.Owner})
	}
	if err != nil {
		return err
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
	// the device is not an endpoint: it needs no link-local address
	if err := writeSysctl("net/ipv6/conf/"+d.Name+"/addr_gen_mode", "1"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := k.nl.LinkSetUp(existing); err != nil {
		return fmt.Errorf("set %s up: %w", d.Name, err)
	}
	return nil
}

func (k *Kernel) observeDevice(v *view, l netlink.Link) (d state.Device, is bool, err error) {
	a := l.Attrs()
	owner, ours := strings.CutPrefix(a.Alias, mark.AliasPrefix)
	d = state.Device{Name: a.Name, MTU: a.MTU, Owner: owner}
	if !ours || l.Type() != "tuntap" || strings.HasPrefix(owner, "bridge.") || v.unfinished(l, d) {
		return d, false, nil
	}
	copy(d.MAC[:], a.HardwareAddr)
	return d, true, nil
}

// makeTap creates a persistent tap device. The netlink package would always set an
// owner and a group, and the process that opens the device would have to match both.
// Virtio headers are the opener's choice, the queues are not.
func (k *Kernel) makeTap(g state.GuestDevice) (netlink.Link, error) {
	owner, group, err := identities(g)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/net/tun: %w (modprobe tun; in a unit DeviceAllow=/dev/net/tun rw, in a container --device /dev/net/tun)", err)
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq(g.Name)
	if err != nil {
		return nil, err
	}
	flags := uint16(unix.IFF_TAP | unix.IFF_NO_PI)
	if g.MultiQueue {
		flags |= unix.IFF_MULTI_QUEUE
	}
	request.SetUint16(flags)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		return nil, fmt.Errorf("make tap device %s: %w", g.Name, err)
	}
	if g.User != "" || g.Group == "" {
		if err := unix.IoctlSetInt(fd, unix.TUNSETOWNER, int(owner)); err != nil {
			return nil, fmt.Errorf("set its owner: %w", err)
		}
	}
	if g.Group != "" {
		if err := unix.IoctlSetInt(fd, unix.TUNSETGROUP, int(group)); err != nil {
			return nil, fmt.Errorf("set its group: %w", err)
		}
	}
	// until it is marked it is removed with this process
	l, err := k.mark(g.Name, g.Owner)
	if err != nil {
		return nil, err
	}
	if err := unix.IoctlSetInt(fd, unix.TUNSETPERSIST, 1); err != nil {
		return nil, fmt.Errorf("make tap device %s stay: %w", g.Name, err)
	}
	return l, nil
}
