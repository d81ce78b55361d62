// Package rig builds the test beds of benches: paths of three network namespaces,
// the routers in their middle, and the traffic across them.
package rig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weft/internal/ethtool"
	"weft/internal/lab/netspace"
	"weft/internal/paths"
)

// Path is three network namespaces in a row:
//
//	left eth0 --- lan router wan --- eth0 right
type Path struct {
	Name                string
	Left, Router, Right *netspace.Space
	dir                 string
	weft, l2tpns        int    // processes, if RunWeft and RunL2TPNS have started one
	hosts               string // CPU of HostsOn
	patience            time.Duration
	threads             map[string][]int // that Receive has had started in the router, by device
	closers             []func() error
}

// Ends are the addresses of one link: the host's and the router's, in both
// families.
type Ends struct {
	Host, Router [2]netip.Prefix
}

// PathOptions describe a path.
type PathOptions struct {
	Name       string // unique among the paths that are up in this process
	Lan, Wan   Ends
	Forward    bool          // the router gets its addresses and forwards; otherwise what runs in it sees to that
	HostGRO    bool          // generic receive offload at the hosts: also makes them targets of XDP redirects
	RouterGRO  bool          // likewise at the router
	NoChecksum bool          // the hosts leave no transport checksum to the device: XDP would send it unfinished
	Policy     string        // nftables ruleset of the router
	Patience   time.Duration // what a process may take until it is ready; 0: as long as most do
}

// prefix begins the names of namespaces, dirPrefix those of directories; what
// follows is the process that made them, so that the next bench finds what a
// killed one left.
const (
	prefix    = "bench-"
	dirPrefix = "weft-bench-"
)

// settle is how long a path may take until a ping is answered, or a process until it
// is ready.
const settle = time.Minute

// NewPath makes a path. Close takes it down.
func NewPath(o PathOptions) (*Path, error) {
	p := &Path{Name: o.Name, patience: o.Patience}
	if err := p.build(o); err != nil {
		return nil, errors.Join(fmt.Errorf("build path %s: %w", o.Name, err), p.Close(context.Background()))
	}
	return p, nil
}

func (p *Path) build(o PathOptions) error {
	var err error
	if p.dir, err = os.MkdirTemp("", fmt.Sprintf("%s%d-", dirPrefix, os.Getpid())); err != nil {
		return err
	}
	for _, s := range []struct {
		to   **netspace.Space
		role string
	}{{&p.Left, "l"}, {&p.Router, "r"}, {&p.Right, "x"}} {
		if *s.to, err = newSpace(fmt.Sprintf("%s%d-%s-%s", prefix, os.Getpid(), o.Name, s.role)); err != nil {
			return err
		}
	}
	if o.Forward {
		if err := sysctls(p.Router, "net/ipv4/ip_forward=1", "net/ipv6/conf/all/forwarding=1"); err != nil {
			return err
		}
	}
	if err := p.connect(p.Left, "lan", o.Lan, o); err != nil {
		return err
	}
	if err := p.connect(p.Right, "wan", o.Wan, o); err != nil {
		return err
	}
	return p.loadPolicy(o.Policy)
}

func newSpace(name string) (*netspace.Space, error) {
	s, err := netspace.Create(name)
	if err != nil {
		return nil, err
	}
	// no duplicate address detection (RFC 4862 5.4): it would hold addresses back
	err = sysctls(s, "net/ipv6/conf/all/accept_dad=0", "net/ipv6/conf/default/accept_dad=0")
	return s, errors.Join(err, withLink(s, "lo", func(h *netlink.Handle, l netlink.Link) error { return h.LinkSetUp(l) }))
}

// sysctls writes settings like net/ipv4/ip_forward=1 in a namespace.
func sysctls(s *netspace.Space, settings ...string) error {
	return s.Do(func() error {
		for _, setting := range settings {
			name, value, _ := strings.Cut(setting, "=")
			if err := os.WriteFile("/proc/sys/"+name, []byte(value), 0o644); err != nil {
				return fmt.Errorf("set %s in %s: %w", name, s.Name, err)
			}
		}
		return nil
	})
}

func withLink(s *netspace.Space, name string, f func(*netlink.Handle, netlink.Link) error) error {
	h, err := s.Netlink()
	if err != nil {
		return err
	}
	defer h.Close()
	l, err := h.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find %s in %s: %w", name, s.Name, err)
	}
	if err := f(h, l); err != nil {
		return fmt.Errorf("set up %s in %s: %w", name, s.Name, err)
	}
	return nil
}

// connect connects a host's eth0 to the router.
func (p *Path) connect(host *netspace.Space, device string, ends Ends, o PathOptions) error {
	h, err := host.Netlink()
	if err != nil {
		return err
	}
	defer h.Close()
	err = h.LinkAdd(&netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: "eth0", TxQLen: -1}, PeerName: device,
		PeerNamespace: netlink.NsFd(p.Router.FD()),
	})
	if err != nil {
		return fmt.Errorf("add veth %s: %w", device, err)
	}
	features := func(s *netspace.Space, name string, gro bool) error {
		return s.Do(func() error {
			if err := ethtool.Switch(name, ethtool.Receive, gro); err != nil {
				return err
			}
			return ethtool.Switch(name, ethtool.TransmitChecksum, !o.NoChecksum || s == p.Router)
		})
	}
	if err := errors.Join(features(host, "eth0", o.HostGRO), features(p.Router, device, o.RouterGRO)); err != nil {
		return err
	}
	var routers []netip.Prefix
	if o.Forward {
		routers = ends.Router[:]
	}
	if err := withLink(p.Router, device, addresses(routers)); err != nil {
		return err
	}
	if err := withLink(host, "eth0", addresses(ends.Host[:])); err != nil {
		return err
	}
	for _, via := range ends.Router {
		if err := h.RouteAdd(&netlink.Route{Gw: via.Addr().AsSlice()}); err != nil {
			return fmt.Errorf("add default route via %s: %w", via.Addr(), err)
		}
	}
	return nil
}

func addresses(list []netip.Prefix) func(*netlink.Handle, netlink.Link) error {
	return func(h *netlink.Handle, l netlink.Link) error {
		for _, a := range list {
			addr := &netlink.Addr{IPNet: ipNet(a)}
			if a.Addr().Is6() {
				addr.Flags = unix.IFA_F_NODAD
			}
			if err := h.AddrAdd(l, addr); err != nil {
				return fmt.Errorf("add address %s: %w", a, err)
			}
		}
		return h.LinkSetUp(l)
	}
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// onClose registers f to be called when the path is removed, last one first.
func (p *Path) onClose(f func() error) { p.closers = append(p.closers, f) }

// Close stops the path's processes and removes it.
func (p *Path) Close(ctx context.Context) error {
	var errs []error
	for i := len(p.closers) - 1; i >= 0; i-- {
		errs = append(errs, p.closers[i]())
	}
	for _, s := range []*netspace.Space{p.Left, p.Router, p.Right} {
		if s != nil {
			errs = append(errs, remove(ctx, s))
		}
	}
	if p.dir != "" {
		errs = append(errs, os.RemoveAll(p.dir))
	}
	return errors.Join(errs...)
}

// remove ends the processes in a namespace and removes it, with the pins of a weft
// daemon.
func remove(ctx context.Context, s *netspace.Space) error {
	err := netspace.Stop(ctx, 3*time.Second, s)
	cookie, unknown := s.Cookie()
	err = errors.Join(err, s.Close(), netspace.Delete(s.Name))
	if unknown == nil {
		// last: programs leave devices that are gone without a grace period each
		err = errors.Join(err, paths.Of(cookie).Remove())
	}
	return err
}

// Sweep removes the leftovers of killed benches.
func Sweep(ctx context.Context) error {
	names, err := netspace.List(prefix)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !orphan(name, prefix) {
			continue
		}
		s, err := netspace.Open(name)
		if err != nil {
			return errors.Join(err, netspace.Delete(name))
		}
		err = remove(ctx, s)
		if errors.Is(err, unix.EBUSY) {
			continue // mounted where it cannot be reached: an empty name, until a reboot
		}
		if err != nil {
			return fmt.Errorf("take away %s, left by an earlier bench: %w", name, err)
		}
	}
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*"))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if orphan(filepath.Base(dir), dirPrefix) {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}
	return err
}

// orphan reports whether the process in a name has ended.
func orphan(name, prefix string) bool {
	owner, _, named := strings.Cut(strings.TrimPrefix(name, prefix), "-") // without the hyphen the number is none of a process
	pid, err := strconv.Atoi(owner)
	return err == nil && named && pid != os.Getpid() && !Alive(pid)
}

// Alive reports whether such a process exists.
func Alive(pid int) bool {
	_, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid)))
	return err == nil
}
