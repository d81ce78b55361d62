package kernel

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weft/internal/state"
)

// stripTags is ETH_FLAG_RXVLAN of linux/ethtool.h: the device takes VLAN tags
// out of frames and hands them over beside.
const stripTags = 1 << 8

// ethtoolFlags reads or writes the flags of a device (ETHTOOL_GFLAGS,
// ETHTOOL_SFLAGS).
func ethtoolFlags(device string, command, flags uint32) (uint32, error) {
	value := struct{ command, data uint32 }{command, flags}
	var request struct { // struct ifreq, netdevice(7)
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		rest [16]byte
	}
	copy(request.name[:unix.IFNAMSIZ-1], device)
	request.data = unsafe.Pointer(&value)
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("open socket: %w", err)
	}
	defer unix.Close(fd)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request)))
	if errno != 0 {
		return 0, errno
	}
	return value.data, nil
}

// observeTags reports a device that leaves tags in its frames if that is wanted
// or weft's doing. A device without such a setting always does.
func (k *Kernel) observeTags(l netlink.Link, wanted map[string]state.Object) (state.Object, error) {
	o := state.TagsInFrames{Device: l.Attrs().Name}
	if _, ours := k.journal.was[o.Key()]; !ours && wanted[o.Key()] == nil {
		return nil, nil
	}
	flags, err := ethtoolFlags(o.Device, unix.ETHTOOL_GFLAGS, 0)
	switch {
	case errors.Is(err, unix.EOPNOTSUPP):
	case err != nil:
		return nil, fmt.Errorf("read the offloads of %s: %w", o.Device, err)
	case flags&stripTags != 0:
		return nil, nil
	}
	return o, nil
}

func (k *Kernel) applyTags(o state.TagsInFrames, remove bool) error {
	if remove {
		if _, err := k.nl.LinkByName(o.Device); err == nil {
			if err := setStripTags(o.Device, true); err != nil {
				return err
			}
		}
		return k.journal.forget(o.Key())
	}
	if err := k.journal.note(o.Key(), "stripped"); err != nil {
		return err
	}
	if err := setStripTags(o.Device, false); err != nil {
		return fmt.Errorf(`%w (an XDP program would take a VLAN's frames for the device's own; set hook = "tc" on its interface)`, err)
	}
	return nil
}

func setStripTags(device string, on bool) error {
	flags, err := ethtoolFlags(device, unix.ETHTOOL_GFLAGS, 0)
	if err == nil {
		flags &^= stripTags
		if on {
			flags |= stripTags
		}
		_, err = ethtoolFlags(device, unix.ETHTOOL_SFLAGS, flags)
	}
	if err != nil {
		return fmt.Errorf("set rx-vlan-offload of %s: %w", device, err)
	}
	return nil
}
