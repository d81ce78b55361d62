package kernel

import (
	"context"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weft/internal/state"
)

// observePromiscuous reports a device in promiscuous mode if that is desired or set
// by weft. The flag shows only explicit requests: a bridge's ports receive all
// frames without it.
func (k *Kernel) observePromiscuous(v *view, l netlink.Link) (o state.Promiscuous, is bool, err error) {
	o.Device = l.Attrs().Name
	_, ours := k.journal.was[o.Key()]
	return o, l.Attrs().RawFlags&unix.IFF_PROMISC != 0 && (ours || v.wanted[o.Key()] != nil), nil
}

func (k *Kernel) applyPromiscuous(_ context.Context, o state.Promiscuous, remove bool) error {
	l, err := k.nl.LinkByName(o.Device)
	if remove {
		if err == nil {
			if err := k.nl.SetPromiscOff(l); err != nil {
				return fmt.Errorf("set promiscuous mode off on %s: %w", o.Device, err)
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
	if err := k.nl.SetPromiscOn(l); err != nil {
		return fmt.Errorf("set promiscuous mode on %s: %w", o.Device, err)
	}
	return nil
}
