package trace

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weft/internal/config"
	"weft/internal/state"
)

// HostDevice is what the inner process takes over from a device of the host.
type HostDevice struct {
	Real   bool // the host has it
	MAC    mac
	MTU    int
	XDP    bool // hook = "auto" chooses XDP for it
	Routes []HostRoute
	// Addresses other than its link-local one, wherever they come from.
	Addresses []HostAddress
}

// HostAddress is one of a device's. Peer is the far end of a point-to-point link, else not valid.
type HostAddress struct {
	Address netip.Prefix
	Peer    netip.Prefix
}

// HostRoute leads out of the device that holds it.
type HostRoute struct {
	To     netip.Prefix
	Via    netip.Addr // not valid: on the link
	Metric int
}

// Host reads the devices that f names. Those that the host does not have are
// not in the result. links are the host's facts.
func Host(f *config.File, links []state.LinkFact) (map[string]HostDevice, error) {
	found := map[string]HostDevice{}
	facts := state.Facts{Links: links}
	for _, name := range f.Names("interface") {
		device := f.Interface(name).Device
		l, ok := facts.Link(device)
		if !ok {
			continue
		}
		d := HostDevice{Real: true, MAC: l.MAC, MTU: l.MTU, XDP: l.Kind == "" && l.XDP}
		var err error
		if d.Routes, err = hostRoutes(l.Index); err != nil {
			return nil, fmt.Errorf("read the routes of %s: %w", device, err)
		}
		if d.Addresses, err = hostAddresses(l.Index); err != nil {
			return nil, fmt.Errorf("read the addresses of %s: %w", device, err)
		}
		found[device] = d
	}
	return found, nil
}

// weftRoutes is the protocol number of weft's own routes: the inner router
// makes its own.
const weftRoutes = 87

func hostRoutes(index int) ([]HostRoute, error) {
	filter := &netlink.Route{LinkIndex: index, Table: unix.RT_TABLE_MAIN}
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, filter, netlink.RT_FILTER_OIF|netlink.RT_FILTER_TABLE)
	// a dump that others change meanwhile is still good enough to start from
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil, err
	}
	var list []HostRoute
	for _, r := range routes {
		to, ok := prefixOf(r)
		if !ok || r.Type != unix.RTN_UNICAST || r.Protocol == unix.RTPROT_KERNEL || r.Protocol == weftRoutes {
			continue
		}
		via, _ := netip.AddrFromSlice(r.Gw)
		list = append(list, HostRoute{To: to, Via: via.Unmap(), Metric: r.Priority})
	}
	return list, nil
}

func hostAddresses(index int) ([]HostAddress, error) {
	link := &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: index}}
	found, err := netlink.AddrList(link, netlink.FAMILY_ALL)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil, err
	}
	var list []HostAddress
	for _, a := range found {
		own, ok := netip.AddrFromSlice(a.IP)
		if !ok || own.Unmap().IsLinkLocalUnicast() && own.Unmap().Is6() || a.Flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_DADFAILED) != 0 {
			continue
		}
		ones, _ := a.Mask.Size()
		h := HostAddress{Address: netip.PrefixFrom(own.Unmap(), ones)}
		if a.Peer != nil && !a.Peer.IP.Equal(a.IP) {
			peer, _ := netip.AddrFromSlice(a.Peer.IP)
			ones, _ := a.Peer.Mask.Size()
			h.Peer = netip.PrefixFrom(peer.Unmap(), ones)
		}
		list = append(list, h)
	}
	return list, nil
}

func prefixOf(r netlink.Route) (netip.Prefix, bool) {
	if r.Dst == nil {
		if r.Family == unix.AF_INET {
			return netip.PrefixFrom(netip.IPv4Unspecified(), 0), true
		}
		return netip.PrefixFrom(netip.IPv6Unspecified(), 0), true
	}
	a, ok := netip.AddrFromSlice(r.Dst.IP)
	ones, _ := r.Dst.Mask.Size()
	return netip.PrefixFrom(a.Unmap(), ones), ok
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
