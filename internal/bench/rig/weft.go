package rig

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"

	"weft/internal/lab/netspace"
	"weft/internal/paths"
)

// WeftMemory is what a weft in the router takes: its pinned tables, and the
// resident memory of its daemon (proc(5), VmRSS).
func (p *Path) WeftMemory() (uint64, error) {
	cookie, err := p.Router.Cookie()
	if err != nil {
		return 0, err
	}
	dir := filepath.Join(paths.Of(cookie).Pins, "maps")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, fmt.Errorf("list weft's tables: %w", err)
	}
	var bytes uint64
	for _, e := range entries {
		n, err := mapBytes(filepath.Join(dir, e.Name()))
		if err != nil {
			return 0, fmt.Errorf("ask for the memory of table %s: %w", e.Name(), err)
		}
		bytes += n
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.weft))
	if err != nil {
		return 0, err
	}
	resident, err := kilobytes(string(text), "VmRSS:")
	return bytes + resident, err
}

// UnloadWeft ends the processes in a namespace, and runs weft unload there.
func (p *Path) UnloadWeft(ctx context.Context, in *netspace.Space, weft string) error {
	if err := netspace.Stop(ctx, settle, in); err != nil {
		return err
	}
	_, err := p.Command(ctx, in, weft, "unload")
	return err
}

func mapBytes(pin string) (uint64, error) {
	m, err := ebpf.LoadPinnedMap(pin, nil)
	if err != nil {
		return 0, err
	}
	defer m.Close()
	info, err := m.Info()
	if err != nil {
		return 0, err
	}
	n, _ := info.Memlock() // an empty table of some kinds has none
	if m.Type() != ebpf.ArrayOfMaps {
		return n, nil
	}
	for at := range m.MaxEntries() {
		var fragment *ebpf.Map
		if err := m.Lookup(at, &fragment); errors.Is(err, ebpf.ErrKeyNotExist) {
			continue
		} else if err != nil {
			return 0, err
		}
		info, err := fragment.Info()
		fragment.Close()
		if err != nil {
			return 0, err
		}
		more, _ := info.Memlock()
		n += more
	}
	return n, nil
}

// Route adds a route by way of a neighbour to the router.
func (p *Path) Route(to netip.Prefix, via netip.Addr) error {
	h, err := p.Router.Netlink()
	if err != nil {
		return err
	}
	defer h.Close()
	if err := h.RouteAdd(&netlink.Route{Dst: ipNet(to), Gw: via.AsSlice()}); err != nil {
		return fmt.Errorf("add route %s via %s: %w", to, via, err)
	}
	return nil
}

// Policy gives the router one more ruleset (nft(8)).
func (p *Path) Policy(ruleset string) error { return p.loadPolicy(ruleset) }

// Sysctl writes settings like net/ipv4/ip_forward=1 in the router.
func (p *Path) Sysctl(settings ...string) error { return sysctls(p.Router, settings...) }
