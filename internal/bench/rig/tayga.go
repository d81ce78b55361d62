package rig

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/vishvananda/netlink"
)

// Tayga says what a tayga(8) translates.
type Tayga struct {
	Device string
	Self   netip.Addr // IPv4, for its ICMP errors
	Prefix netip.Prefix
	IPv6   netip.Addr // the node
	IPv4   netip.Addr // and what it is called in IPv4
}

// RunTayga starts Tayga in the router, with routes to its device.
func (p *Path) RunTayga(ctx context.Context, t Tayga) error {
	file := filepath.Join(p.dir, "tayga.conf")
	text := fmt.Sprintf("tun-device %s\nipv4-addr %s\nprefix %s\nmap %s %s\n", t.Device, t.Self, t.Prefix, t.IPv4, t.IPv6)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return err
	}
	if _, err := p.run(p.Router, exec.CommandContext(ctx, "tayga", "--mktun", "-c", file)); err != nil {
		return err
	}
	pr, err := p.launch(p.Router, "tayga", nil, "tayga", "--nodetach", "-c", file)
	if err != nil {
		return err
	}
	err = withLink(p.Router, t.Device, func(h *netlink.Handle, l netlink.Link) error {
		if err := h.LinkSetUp(l); err != nil {
			return err
		}
		// As weft's own routes: what comes from IPv4 grows by 20 bytes.
		to4 := netlink.Route{LinkIndex: l.Attrs().Index, Dst: netlink.NewIPNet(t.IPv4.AsSlice()), MTU: l.Attrs().MTU - 20}
		if err := h.RouteAdd(&to4); err != nil {
			return fmt.Errorf("add route to %s: %w", t.IPv4, err)
		}
		to6 := &net.IPNet{IP: t.Prefix.Addr().AsSlice(), Mask: net.CIDRMask(t.Prefix.Bits(), 128)}
		if err := h.RouteAdd(&netlink.Route{LinkIndex: l.Attrs().Index, Dst: to6}); err != nil {
			return fmt.Errorf("add route to %s: %w", t.Prefix, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return pr.until(ctx, func() (up bool, err error) {
		err = withLink(p.Router, t.Device, func(_ *netlink.Handle, l netlink.Link) error {
			up = l.Attrs().OperState != netlink.OperDown // a TUN device has its carrier from the process
			return nil
		})
		return up, err
	})
}
