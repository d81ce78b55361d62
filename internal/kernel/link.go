package kernel

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weft/internal/state"
)

func (k *Kernel) applyLink(_ context.Context, want state.Link, remove bool) error {
	if remove {
		return k.restoreLink(want)
	}
	l, err := k.nl.LinkByName(want.Name)
	if err != nil {
		return fmt.Errorf("find device %s: %w", want.Name, err)
	}
	up := l.Attrs().RawFlags&unix.IFF_UP != 0
	if err := k.journal.note(want.Key(), strconv.FormatBool(up)); err != nil {
		return err
	}
	if err := k.setMTU(l, want.MTU); err != nil {
		return err
	}
	if err := k.nl.LinkSetUp(l); err != nil {
		return fmt.Errorf("set %s up: %w", want.Name, err)
	}
	return nil
}

// mtuKey is the journal's key for the MTU of a device, which is restored as soon as
// the file does not set it any more.
func mtuKey(device string) string { return state.Link{Name: device}.Key() + " mtu" }

// setMTU sets an MTU; zero restores the one before weft set one.
func (k *Kernel) setMTU(l netlink.Link, mtu int) error {
	a := l.Attrs()
	if mtu == 0 {
		return k.restoreMTU(l)
	}
	if err := k.journal.note(mtuKey(a.Name), strconv.Itoa(a.MTU)); err != nil {
		return err
	}
	if mtu == a.MTU {
		return nil
	}
	if err := k.nl.LinkSetMTU(l, mtu); err != nil {
		return fmt.Errorf("set MTU %d on %s: %w", mtu, a.Name, err)
	}
	return nil
}

func (k *Kernel) restoreMTU(l netlink.Link) error {
	key := mtuKey(l.Attrs().Name)
	was, changed := k.journal.was[key]
	if !changed {
		return nil
	}
	mtu, err := strconv.Atoi(was)
	if err == nil {
		err = k.nl.LinkSetMTU(l, mtu)
	}
	if err != nil {
		return fmt.Errorf("put MTU %s back on %s: %w", was, l.Attrs().Name, err)
	}
	return k.journal.forget(key)
}

func (k *Kernel) restoreLink(o state.Link) error {
	if l, err := k.nl.LinkByName(o.Name); err == nil {
		if err := k.restoreMTU(l); err != nil {
			return err
		}
		if k.journal.was[o.Key()] == "false" {
			if err := k.nl.LinkSetDown(l); err != nil {
				return fmt.Errorf("set %s down: %w", o.Name, err)
			}
		}
	}
	return errors.Join(k.journal.forget(mtuKey(o.Name)), k.journal.forget(o.Key()))
}

// observeLink reads the settings that are desired or were changed earlier.
func (k *Kernel) observeLink(v *view, l netlink.Link) (now state.Link, is bool, err error) {
	a := l.Attrs()
	now = state.Link{Name: a.Name}
	want, ok := v.wanted[now.Key()].(state.Link)
	_, changed := k.journal.was[now.Key()]
	if !ok && !changed || ok && a.RawFlags&unix.IFF_UP == 0 {
		return now, false, nil
	}
	if _, set := k.journal.was[mtuKey(a.Name)]; !ok || want.MTU != 0 || set {
		now.MTU = a.MTU
	}
	return now, true, nil
}
