package kernel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weft/internal/state"
)

// Observe lists what there is of the objects in want, and of what weft made
// or changed earlier and want no longer has.
func (k *Kernel) Observe(ctx context.Context, want state.Desired) ([]state.Object, error) {
	// what the plan was made of, else what exists now
	s := k.recent.Swap(nil)
	if s == nil {
		var err error
		if s, err = k.look(); err != nil {
			return nil, err
		}
	}
	links := s.links
	found := append(observeDevices(links), observeWires(links)...)
	wanted := map[string]state.Object{}
	for _, o := range want {
		wanted[o.Key()] = o
	}
	for _, l := range links {
		if o := k.observeLink(l, wanted); o != nil {
			found = append(found, o)
		}
		if o := k.observeAllMulticast(l, wanted); o != nil {
			found = append(found, o)
		}
		if o := k.observePromiscuous(l, wanted); o != nil {
			found = append(found, o)
		}
		tags, err := k.observeTags(l, wanted)
		if err != nil {
			return nil, err
		}
		if tags != nil {
			found = append(found, tags)
		}
	}
	bridges, err := k.observeBridges(s, wanted)
	if err != nil {
		return nil, err
	}
	found = append(found, bridges...)
	addresses, err := k.observeAddresses(links, wanted)
	if err != nil {
		return nil, err
	}
	routes, err := k.observeRoutes(links)
	if err != nil {
		return nil, err
	}
	sysctls, err := k.observeSysctls(want)
	if err != nil {
		return nil, err
	}
	if o := k.observeRefusalTrace(ctx, want); o != nil {
		found = append(found, o)
	}
	return append(append(append(found, addresses...), routes...), sysctls...), nil
}

func observeDevices(links []netlink.Link) []state.Object {
	var found []state.Object
	for _, l := range links {
		a := l.Attrs()
		if owner, ok := strings.CutPrefix(a.Alias, AliasPrefix); ok && l.Type() == "tuntap" && !strings.HasPrefix(owner, "bridge.") && a.RawFlags&unix.IFF_UP != 0 {
			d := state.Device{Name: a.Name, MTU: a.MTU, Owner: owner}
			copy(d.MAC[:], a.HardwareAddr)
			found = append(found, d)
		}
	}
	return found
}

// observeLink looks at the settings that are wanted or were changed earlier.
func (k *Kernel) observeLink(l netlink.Link, wanted map[string]state.Object) state.Object {
	a := l.Attrs()
	now := state.Link{Name: a.Name}
	want, ok := wanted[now.Key()].(state.Link)
	_, changed := k.journal.was[now.Key()]
	if !ok && !changed {
		return nil
	}
	if ok && a.RawFlags&unix.IFF_UP == 0 {
		return nil
	}
	if _, set := k.journal.was[mtuKey(a.Name)]; !ok || want.MTU != 0 || set {
		now.MTU = a.MTU
	}
	return now
}

// observeAllMulticast reports a device that takes all multicast if that is
// wanted or weft's doing.
func (k *Kernel) observeAllMulticast(l netlink.Link, wanted map[string]state.Object) state.Object {
	o := state.AllMulticast{Device: l.Attrs().Name}
	_, ours := k.journal.was[o.Key()]
	if l.Attrs().RawFlags&unix.IFF_ALLMULTI == 0 || !ours && wanted[o.Key()] == nil {
		return nil
	}
	return o
}

func (k *Kernel) observeAddresses(links []netlink.Link, wanted map[string]state.Object) ([]state.Object, error) {
	addresses, err := k.addresses()
	if err != nil {
		return nil, err
	}
	names := linkNames(links)
	var found []state.Object
	for _, a := range addresses {
		p, ok := prefixOf(a)
		o := state.Address{Device: names[a.LinkIndex], Prefix: p}
		if _, ours := k.journal.was[o.Key()]; ok && (ours || wanted[o.Key()] != nil) {
			found = append(found, o)
		}
	}
	return found, nil
}

func linkNames(links []netlink.Link) map[int]string {
	names := map[int]string{}
	for _, l := range links {
		names[l.Attrs().Index] = l.Attrs().Name
	}
	return names
}

func (k *Kernel) observeRoutes(links []netlink.Link) ([]state.Object, error) {
	names := linkNames(links)
	var found []state.Object
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		filter := &netlink.Route{Protocol: RouteProtocol, Table: unix.RT_TABLE_MAIN}
		routes, err := listed(func() ([]netlink.Route, error) {
			return k.nl.RouteListFiltered(family, filter, netlink.RT_FILTER_PROTOCOL|netlink.RT_FILTER_TABLE)
		})
		if err != nil {
			return nil, fmt.Errorf("list routes: %w", err)
		}
		for _, r := range routes {
			found = append(found, state.Route{Prefix: routePrefix(r, family), Device: names[r.LinkIndex], MTU: r.MTU})
		}
	}
	return found, nil
}

// routePrefix gives the destination. The default route's may be left out, and
// IPv4's comes in 16 bytes.
func routePrefix(r netlink.Route, family int) netip.Prefix {
	if r.Dst != nil {
		if addr, ok := netip.AddrFromSlice(r.Dst.IP); ok {
			if family == netlink.FAMILY_V4 {
				addr = addr.Unmap()
			}
			ones, _ := r.Dst.Mask.Size()
			return netip.PrefixFrom(addr, ones)
		}
	}
	if family == netlink.FAMILY_V4 {
		return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	}
	return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
}

// observeSysctls reads what is wanted and what the journal says was changed.
// A setting whose device is gone is gone with it.
func (k *Kernel) observeSysctls(want state.Desired) ([]state.Object, error) {
	names := map[string]bool{}
	for _, o := range want {
		if s, ok := o.(state.Sysctl); ok {
			names[s.Name] = true
		}
	}
	for key := range k.journal.was {
		if name, ok := strings.CutPrefix(key, "sysctl "); ok {
			names[name] = true
		}
	}
	var found []state.Object
	for name := range names {
		value, err := readSysctl(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		found = append(found, state.Sysctl{Name: name, Value: value})
	}
	return found, nil
}

func sysctlPath(name string) string { return filepath.Join("/proc/sys", name) }

func readSysctl(name string) (string, error) {
	text, err := os.ReadFile(sysctlPath(name))
	if err != nil {
		return "", fmt.Errorf("read sysctl: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// Sysctls reads settings, those that there are.
func (k *Kernel) Sysctls(names []string) map[string]string {
	values := map[string]string{}
	for _, name := range names {
		if value, err := readSysctl(name); err == nil {
			values[name] = value
		}
	}
	return values
}
