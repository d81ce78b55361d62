package guest

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// setUpNetwork runs in the guest: names, sysctls, addresses, routes.
func setUpNetwork(s Spec) error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find lo: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("set lo up: %w", err)
	}
	for _, n := range s.NICs {
		if err := nameNIC(n); err != nil {
			return fmt.Errorf("NIC %s: %w", n.Name, err)
		}
	}
	if err := setSysctls(s); err != nil {
		return err
	}
	if s.Impair != nil {
		return joinAsWire(s.NICs[0].Name, s.NICs[1].Name, *s.Impair)
	}
	for _, n := range s.NICs {
		if err := addressNIC(n); err != nil {
			return fmt.Errorf("NIC %s: %w", n.Name, err)
		}
	}
	for _, r := range s.Routes {
		if err := addRoute(r); err != nil {
			return fmt.Errorf("route %s: %w", r.Destination, err)
		}
	}
	return nil
}

// nameNIC finds a NIC by its MAC, the one thing both sides know it by.
func nameNIC(n NIC) error {
	links, err := netlink.LinkList()
	if err != nil {
		return err
	}
	for _, link := range links {
		if !bytes.Equal(link.Attrs().HardwareAddr, n.MAC) {
			continue
		}
		if err := netlink.LinkSetName(link, n.Name); err != nil {
			return fmt.Errorf("rename %s: %w", link.Attrs().Name, err)
		}
		return netlink.LinkSetMTU(link, n.MTU)
	}
	return errors.New("the guest's kernel does not show it")
}

func addressNIC(n NIC) error {
	link, err := netlink.LinkByName(n.Name)
	if err != nil {
		return err
	}
	for _, p := range n.Addresses {
		address := &netlink.Addr{IPNet: ipNet(p)}
		if p.Addr().Is6() {
			address.Flags = unix.IFA_F_NODAD // usable at once
		}
		if err := netlink.AddrAdd(link, address); err != nil {
			return fmt.Errorf("add address %s: %w", p, err)
		}
	}
	return netlink.LinkSetUp(link)
}

func addRoute(r Route) error {
	if !r.Destination.IsValid() {
		return errors.New("it has no destination")
	}
	route := netlink.Route{Dst: ipNet(r.Destination.Masked()), MTU: r.MTU, MTULock: r.MTU != 0}
	switch {
	case !r.Via.IsValid():
	case r.Via.Is4() == r.Destination.Addr().Is4():
		route.Gw = r.Via.AsSlice()
	default: // IPv4 by way of an IPv6 neighbour (RFC 8950)
		route.Via = &netlink.Via{AddrFamily: netlink.FAMILY_V6, Addr: r.Via.AsSlice()}
	}
	if r.NIC != "" {
		link, err := netlink.LinkByName(r.NIC)
		if err != nil {
			return err
		}
		route.LinkIndex = link.Attrs().Index
	}
	return netlink.RouteAdd(&route)
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

func setSysctls(s Spec) error {
	if s.Forward {
		for _, name := range []string{"net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"} {
			if err := writeSysctl(name, "1"); err != nil {
				return err
			}
		}
	}
	for name, value := range s.Sysctls {
		if err := writeSysctl(sysctlPath(name), value); err != nil {
			return err
		}
	}
	return nil
}

// sysctlPath reads a name as sysctl(8) does: the first separator that appears
// is the separator, so that an interface's name may hold dots.
func sysctlPath(name string) string {
	if at := strings.IndexAny(name, "./"); at >= 0 && name[at] == '/' {
		return name
	}
	return strings.NewReplacer(".", "/", "/", ".").Replace(name)
}

func writeSysctl(path, value string) error {
	if err := os.WriteFile(filepath.Join("/proc/sys", path), []byte(value), 0); err != nil {
		return fmt.Errorf("set sysctl %s to %q: %w", path, value, err)
	}
	return nil
}
