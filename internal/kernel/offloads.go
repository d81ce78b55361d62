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

// Offloads that make frames other than they are on a wire.
var offloads = []ethtool.Flag{ethtool.SegmentTCP, ethtool.Segment, ethtool.Receive, ethtool.TransmitChecksum, ethtool.ScatterGather}

func (k *Kernel) offloadsMatter(o state.NoOffloads, wanted map[string]state.Object) bool {
	_, noted := k.journal.was[o.Key()]
	return noted || wanted[o.Key()] != nil
}

func (k *Kernel) observeNoOffloads(v *view, l netlink.Link) (o state.NoOffloads, is bool, err error) {
	o.Device = l.Attrs().Name
	if v.bridges == nil || !k.offloadsMatter(o, v.wanted) {
		return o, false, nil
	}
	is, err = offloadsOff(o.Device)
	return o, is, err
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

func (k *Kernel) applyNoOffloads(_ context.Context, o state.NoOffloads, remove bool) error {
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
