package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// cableQueue is the number of frames that wait in a tap until its guest reads them.
// On a busy machine a guest may not run for half a second, and a cable loses
// nothing: the usual 1000 are what 200 connections send in that time.
const cableQueue = 1 << 14

func (l *Lab) makeTap(s MakeTap) error {
	return l.withNetlink(s.Node, func(h *netlink.Handle) error {
		// A cable passes frames that a bridge keeps, as far as Linux permits: all of
		// 01:80:c2:00:00:0X but 0, 1 and 2 (IEEE 802.1Q table 8-1).
		passed, snooping := uint16(0xfff8), false
		bridge := &netlink.Bridge{
			LinkAttrs:    netlink.LinkAttrs{Name: s.Bridge, MTU: s.MTU, TxQLen: -1},
			GroupFwdMask: &passed, MulticastSnooping: &snooping,
		}
		tap := &netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: s.Tap, TxQLen: -1}, Mode: netlink.TUNTAP_MODE_TAP}
		if err := h.LinkAdd(bridge); err != nil {
			return fmt.Errorf("add bridge: %w", err)
		}
		// A tap device is made through /dev/net/tun, in the thread's namespace.
		if err := l.spaces[s.Node].Do(func() error { return netlink.LinkAdd(tap) }); err != nil {
			return fmt.Errorf("add tap: %w", err)
		}
		if err := l.silence(s.Node, s.Bridge, s.Device, s.Tap); err != nil {
			return err
		}
		if err := h.LinkSetTxQLen(tap, cableQueue); err != nil {
			return fmt.Errorf("lengthen the queue of the tap: %w", err)
		}
		for _, name := range []string{s.Device, s.Tap} {
			link, err := h.LinkByName(name)
			if err != nil {
				return err
			}
			// A cable has no address table: with learning, a node that sends from
			// another's address would have that node's frames sent back to it.
			err = errors.Join(h.LinkSetMTU(link, s.MTU), h.LinkSetMaster(link, bridge), h.LinkSetLearning(link, false), h.LinkSetUp(link))
			if err != nil {
				return fmt.Errorf("bridge %s: %w", name, err)
			}
		}
		return h.LinkSetUp(bridge)
	})
}

// silence keeps a cable's own devices from sending: with IPv6 they would send router
// solicitations and MLD reports.
func (l *Lab) silence(node string, devices ...string) error {
	return l.spaces[node].Do(func() error {
		for _, name := range devices {
			if err := os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/disable_ipv6", []byte("1"), 0o644); err != nil {
				return fmt.Errorf("keep %s silent: %w", name, err)
			}
		}
		return nil
	})
}

// switchDevice is the bridge of a switch. It learns addresses, and floods multicast.
const switchDevice = "switch"

func (l *Lab) makeSwitch(s MakeSwitch) error {
	return l.withNetlink(s.Node, func(h *netlink.Handle) error {
		snooping := false
		bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: switchDevice, TxQLen: -1}, MulticastSnooping: &snooping}
		if err := h.LinkAdd(bridge); err != nil {
			return fmt.Errorf("add bridge: %w", err)
		}
		return h.LinkSetUp(bridge)
	})
}

func (l *Lab) awaitLinks(ctx context.Context, s AwaitLinks) error {
	ctx, cancel := context.WithTimeoutCause(ctx, l.deadline, fmt.Errorf("not up after %s", l.deadline))
	defer cancel()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	return l.withNetlink(s.Node, func(h *netlink.Handle) error {
		for _, device := range s.Devices {
			for {
				up, err := l.linkUp(h, s.Node, device)
				if err != nil {
					return fmt.Errorf("look at %s: %w", device, err)
				}
				if up {
					break
				}
				select {
				case <-ctx.Done():
					return fmt.Errorf("%s: %w", device, context.Cause(ctx))
				case <-again.C:
				}
			}
		}
		return nil
	})
}

// linkUp reports whether the device is operational, with an IPv6 link-local address
// unless IPv6 is disabled there or the MTU too small for it (RFC 8200 section 5).
func (l *Lab) linkUp(h *netlink.Handle, node, device string) (bool, error) {
	link, err := h.LinkByName(device)
	if err != nil {
		return false, err
	}
	if link.Attrs().OperState != netlink.OperUp {
		return false, nil
	}
	without, err := l.withoutIPv6(node, device)
	if err != nil || without || link.Attrs().MTU < 1280 {
		return err == nil, err
	}
	addresses, err := h.AddrList(link, netlink.FAMILY_V6)
	if errors.Is(err, netlink.ErrDumpInterrupted) {
		return false, nil // they change just now
	}
	if err != nil {
		return false, err
	}
	local := false
	for _, a := range addresses {
		if a.Flags&unix.IFA_F_TENTATIVE != 0 {
			return false, nil
		}
		local = local || a.IP.IsLinkLocalUnicast()
	}
	return local, nil
}

func (l *Lab) withoutIPv6(node, device string) (bool, error) {
	off := false
	err := l.spaces[node].Do(func() error {
		text, err := os.ReadFile("/proc/sys/net/ipv6/conf/" + device + "/disable_ipv6")
		off = strings.TrimSpace(string(text)) == "1"
		return err
	})
	return off, err
}
