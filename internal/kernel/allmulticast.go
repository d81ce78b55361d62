package kernel

import (
	"context"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weft/internal/state"
)

func (k *Kernel) applyAllMulticast(_ context.Context, o state.AllMulticast, remove bool) error {
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

// observeAllMulticast reports a device in all-multicast mode if that is desired or
// set by weft.
func (k *Kernel) observeAllMulticast(v *view, l netlink.Link) (o state.AllMulticast, is bool, err error) {
	o.Device = l.Attrs().Name
	_, ours := k.journal.was[o.Key()]
	return o, l.Attrs().RawFlags&unix.IFF_ALLMULTI != 0 && (ours || v.wanted[o.Key()] != nil), nil
}
