package lab

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weft/internal/lab/netspace"
)

func (l *Lab) apply(ctx context.Context, step Step) error {
	var err error
	switch s := step.(type) {
	case MakeSpace:
		err = l.makeSpace(s)
	case MakeSwitch:
		err = l.makeSwitch(s)
	case MakeCable:
		err = l.makeCable(s)
	case MakeTap:
		err = l.makeTap(s)
	case AwaitLinks:
		err = l.awaitLinks(ctx, s)
	case StartGuest:
		err = l.startGuest(ctx, s)
	case StartImpairment:
		err = l.startImpairment(ctx, s)
	case SetSysctls:
		err = l.setSysctls(s)
	case AddRoutes:
		err = l.addRoutes(s)
	case WriteFile:
		err = os.WriteFile(filepath.Join(l.nodeDir(s.Node), s.Name), []byte(s.Text), 0o644)
	case StartWeft:
		err = l.startWeft(ctx, s.Node)
	case StartProcess:
		err = l.startProcess(ctx, s)
	default:
		err = fmt.Errorf("no way is known to do a %T", step)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", step, err)
	}
	return nil
}

func (l *Lab) makeSpace(s MakeSpace) error {
	// a node that is revived has its directory already
	if err := os.MkdirAll(l.nodeDir(s.Node), 0o755); err != nil {
		return err
	}
	space, err := netspace.Create(s.Space)
	if err != nil {
		return err
	}
	l.spaces[s.Node] = space
	// Duplicate address detection (RFC 4862 section 5.4) would delay every IPv6
	// address by a second; the plan assigns none twice.
	err = l.setSysctls(SetSysctls{s.Node, [][2]string{
		{"net.ipv6.conf.all.disable_ipv6", "0"},
		{"net.ipv6.conf.default.disable_ipv6", "0"},
		{"net.ipv6.conf.all.accept_dad", "0"},
		{"net.ipv6.conf.default.accept_dad", "0"},
	}})
	if err != nil {
		return err
	}
	return l.withNetlink(s.Node, func(h *netlink.Handle) error {
		lo, err := h.LinkByName("lo")
		if err != nil {
			return err
		}
		return h.LinkSetUp(lo)
	})
}

func (l *Lab) withNetlink(node string, f func(*netlink.Handle) error) error {
	h, err := l.spaces[node].Netlink()
	if err != nil {
		return err
	}
	defer h.Close()
	return f(h)
}

func (l *Lab) setSysctls(s SetSysctls) error {
	return l.spaces[s.Node].Do(func() error {
		for _, v := range s.Values {
			// /proc/sys/net shows the namespace of the reading thread.
			path := "/proc/sys/" + strings.ReplaceAll(v[0], ".", "/")
			if err := os.WriteFile(path, []byte(v[1]), 0o644); err != nil {
				return fmt.Errorf("set %s: %w", v[0], err)
			}
		}
		return nil
	})
}

func (l *Lab) makeCable(s MakeCable) error {
	a, b := s.Ends[0], s.Ends[1]
	veth := &netlink.Veth{
		LinkAttrs:        netlink.LinkAttrs{Name: a.Device, MTU: s.MTU, HardwareAddr: a.MAC, TxQLen: -1},
		PeerName:         b.Device,
		PeerHardwareAddr: b.MAC,
		PeerMTU:          uint32(s.MTU),
		PeerNamespace:    netlink.NsFd(l.spaces[b.Node].FD()),
	}
	err := l.withNetlink(a.Node, func(h *netlink.Handle) error { return h.LinkAdd(veth) })
	if err != nil {
		return err
	}
	for _, end := range s.Ends {
		if err := l.plugIn(end, s.Rate); err != nil {
			return fmt.Errorf("set up %s in %s: %w", end.Device, end.Node, err)
		}
	}
	return nil
}

func (l *Lab) plugIn(p Plug, rate Rate) error {
	return l.withNetlink(p.Node, func(h *netlink.Handle) error {
		link, err := h.LinkByName(p.Device)
		if err != nil {
			return err
		}
		for _, a := range p.Addresses {
			addr := &netlink.Addr{IPNet: &net.IPNet{IP: a.Addr().AsSlice(), Mask: net.CIDRMask(a.Bits(), a.Addr().BitLen())}}
			if a.Addr().Is6() {
				addr.Flags = unix.IFA_F_NODAD
			}
			if err := h.AddrAdd(link, addr); err != nil {
				return fmt.Errorf("add address %s: %w", a, err)
			}
		}
		if p.Switch {
			bridge, err := h.LinkByName(switchDevice)
			if err == nil {
				err = h.LinkSetMaster(link, bridge)
			}
			if err != nil {
				return err
			}
		}
		if err := h.LinkSetUp(link); err != nil {
			return err
		}
		if rate == 0 {
			return nil
		}
		return h.QdiscAdd(bucket(link, rate))
	})
}

// bucket is a token bucket filter (tc-tbf(8)) with this rate and a queue of 50 ms. A
// bucket smaller than one large GSO packet would make the kernel split it, which is
// right for a slow link.
func bucket(link netlink.Link, rate Rate) *netlink.Tbf {
	bytes := uint64(rate) / 8
	burst := uint32(max(bytes/250, 3200)) // 4 ms
	return &netlink.Tbf{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: link.Attrs().Index, Parent: netlink.HANDLE_ROOT, Handle: netlink.MakeHandle(1, 0)},
		Rate:       bytes,
		Limit:      uint32(min(max(bytes/20, 16<<10), 64<<20)),
		Buffer:     netlink.Xmittime(bytes, burst),
	}
}

func (l *Lab) addRoutes(s AddRoutes) error {
	return l.withNetlink(s.Node, func(h *netlink.Handle) error {
		for _, r := range s.Routes {
			route := netlink.Route{
				Dst: &net.IPNet{IP: r.To.Addr().AsSlice(), Mask: net.CIDRMask(r.To.Bits(), r.To.Addr().BitLen())},
				MTU: r.MTU, MTULock: r.MTU != 0,
			}
			if r.Device != "" {
				link, err := h.LinkByName(r.Device)
				if err != nil {
					return fmt.Errorf("%s: %w", r, err)
				}
				route.LinkIndex = link.Attrs().Index
			}
			switch {
			case !r.Via.IsValid():
			case r.Via.Is4() == r.To.Addr().Is4():
				route.Gw = r.Via.AsSlice()
			default: // an IPv4 route by way of an IPv6 neighbour (RFC 5549)
				route.Via = &netlink.Via{AddrFamily: netlink.FAMILY_V6, Addr: r.Via.AsSlice()}
			}
			if err := h.RouteAdd(&route); err != nil {
				return fmt.Errorf("%s: %w", r, err)
			}
		}
		return nil
	})
}
