package kernel

import (
	"context"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weft/internal/ethtool"
	"weft/internal/state"
)

// observeTags reports a device that leaves VLAN tags in its frames if that is
// desired or set by weft. A device without such a setting always does.
func (k *Kernel) observeTags(v *view, l netlink.Link) (o state.TagsInFrames, is bool, err error) {
	o.Device = l.Attrs().Name
	if _, ours := k.journal.was[o.Key()]; !ours && v.wanted[o.Key()] == nil {
		return o, false, nil
	}
	flags, err := ethtool.Get(o.Device, ethtool.Flags)
	switch {
	case errors.Is(err, unix.EOPNOTSUPP):
	case err != nil:
		return o, false, fmt.Errorf("read the offloads of %s: %w", o.Device, err)
	case flags&ethtool.StripTags != 0:
		return o, false, nil
	}
	return o, true, nil
}

func (k *Kernel) applyTags(_ context.Context, o state.TagsInFrames, remove bool) error {
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
	flags, err := ethtool.Get(device, ethtool.Flags)
	if err == nil {
		flags &^= ethtool.StripTags
		if on {
			flags |= ethtool.StripTags
		}
		err = ethtool.Set(device, ethtool.Flags, flags)
	}
	if err != nil {
		return fmt.Errorf("set rx-vlan-offload of %s: %w", device, err)
	}
	return nil
}
