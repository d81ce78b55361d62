package kernel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weft/internal/state"
)

func (k *Kernel) applyAddress(_ context.Context, o state.Address, remove bool) error {
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
		if v, _ := readSysctl("net/ipv6/conf/" + o.Device + "/disable_ipv6"); o.Prefix.Addr().Is6() && v == "1" {
			err = fmt.Errorf("%w (IPv6 is switched off there: sysctl -w net.ipv6.conf.%s.disable_ipv6=0)", err, o.Device)
		}
		return fmt.Errorf("add address %s to %s: %w", o.Prefix, o.Device, err)
	}
	return nil
}

func (k *Kernel) observeAddresses(v *view) (found []state.Address, err error) {
	addresses, err := k.addresses()
	if err != nil {
		return nil, err
	}
	for _, a := range addresses {
		p, ok := prefixOf(a)
		o := state.Address{Device: v.names[a.LinkIndex], Prefix: p}
		if _, ours := k.journal.was[o.Key()]; ok && (ours || v.wanted[o.Key()] != nil) {
			found = append(found, o)
		}
	}
	return found, nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
