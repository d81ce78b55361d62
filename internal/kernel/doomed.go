package kernel

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"weft/internal/fault"
	"weft/internal/kernel/mark"
)

// newLink returns the attributes of a new device.
func newLink(name string) netlink.LinkAttrs {
	a := netlink.NewLinkAttrs()
	a.Name, a.Group = name, mark.DoomedGroup
	return a
}

// mark marks a new device as weft's.
func (k *Kernel) mark(name, alias string) (netlink.Link, error) {
	if err := k.step("made device " + name); err != nil {
		return nil, err
	}
	l, err := k.nl.LinkByName(name)
	if err == nil {
		err = k.nl.LinkSetAlias(l, mark.AliasPrefix+alias)
	}
	if err == nil {
		err = k.step("gave device " + name + " its alias")
	}
	if err == nil {
		err = k.nl.LinkSetGroup(l, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("mark %s as weft's: %w", name, err)
	}
	return l, k.step("marked device " + name)
}

// step lets a test end the operation here, as a kill would.
func (k *Kernel) step(what string) error {
	fault.At(fault.DeviceMade, what)
	if k.fault == nil {
		return nil
	}
	return k.fault(what)
}

// existing returns weft's device with this name; nil if there is none. One that is
// to be removed, or whose creation was not finished, is removed first. remedy is for
// a device that is not weft's.
func (k *Kernel) existing(name, remedy string) (netlink.Link, error) {
	l, err := k.nl.LinkByName(name)
	var missing netlink.LinkNotFoundError
	switch {
	case errors.As(err, &missing):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("find device %s: %w", name, err)
	case l.Attrs().Group == mark.DoomedGroup:
		return nil, k.deleteLink(l)
	case !strings.HasPrefix(l.Attrs().Alias, mark.AliasPrefix):
		return nil, fmt.Errorf("device %s exists and is not weft's (%s)", name, remedy)
	}
	return l, nil
}

// otherName is the remedy for a name that is taken.
func otherName(owner string) string {
	return `set device = "..." in ` + owner + " to another name"
}

func (k *Kernel) deleteLink(l netlink.Link) error {
	if err := k.nl.LinkDel(l); err != nil {
		return fmt.Errorf("remove device %s: %w", l.Attrs().Name, err)
	}
	return nil
}

// deleteDevice removes a device, if it is there.
func (k *Kernel) deleteDevice(name string) error {
	l, err := k.nl.LinkByName(name)
	if err != nil {
		return nil // gone already
	}
	return k.deleteLink(l)
}

// doom removes a device at the end of the series of steps.
func (k *Kernel) doom(name string) error {
	l, err := k.nl.LinkByName(name)
	if err != nil {
		return nil // gone already
	}
	if err := k.nl.LinkSetGroup(l, mark.DoomedGroup); err != nil {
		return fmt.Errorf("remove device %s: %w", name, err)
	}
	k.doomed = true
	return nil
}

// Finish ends a series of steps.
func (k *Kernel) Finish(context.Context) error {
	if err := k.calm(); err != nil || !k.doomed {
		return err
	}
	return k.Sweep()
}

// Sweep removes the devices that are to be removed, or whose creation was not
// finished: also those of a killed process.
func (k *Kernel) Sweep() error {
	req := nl.NewNetlinkRequest(unix.RTM_DELLINK, unix.NLM_F_ACK)
	req.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	req.AddData(nl.NewRtAttr(unix.IFLA_GROUP, nl.Uint32Attr(mark.DoomedGroup)))
	if _, err := req.Execute(unix.NETLINK_ROUTE, 0); err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("remove devices: %w", err)
	}
	k.doomed = false
	return nil
}
