package trace

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"weft/internal/config"
	"weft/internal/ethtool"
)

// device is one interface of weft.toml: its near end, which the router has,
// and its far end, which stands for everybody on that link.
type device struct {
	name      string // as the report calls it
	dev       string
	mac       mac // of the near end
	nearIndex int
	farIndex  int
	port      bool // of a bridge: no route leads out of it, and it may have no IPv6
}

// world is the two namespaces with their devices.
type topology struct {
	devices []device
	near    *socket
	far     *socket
	netlink *netlink.Handle // of the near namespace
	serial  uint64
	answer  bool                // for neighbours
	met     map[netip.Addr]bool // whose neighbours are known
}

// farMAC is the link address of everybody at the far ends.
var farMAC = mac{0x02, 'w', 'e', 'f', 't', 0xff}

// nearMAC is the link address of an interface that the host does not have.
func nearMAC(i int) mac { return mac{0x02, 'w', 'e', 'f', 't', byte(i + 1)} }

// newTopology makes devices for f. The thread that calls it goes to the far
// namespace and back; if that fails it is not to be used any more.
func newTopology(f *config.File, host map[string]HostDevice, made, ports []string, name func(string) string) (*topology, error) {
	w := &topology{met: map[netip.Addr]bool{}}
	home, err := netns.Get()
	if err != nil {
		return nil, fmt.Errorf("open own network namespace: %w", err)
	}
	defer home.Close()
	if err := prepareNear(); err != nil {
		return nil, err
	}
	// Without loopback there is no table of local addresses, and then the kernel takes
	// no IPv4 gateway on a device without an address.
	if lo, err := netlink.LinkByName("lo"); err != nil || netlink.LinkSetUp(lo) != nil {
		return nil, errors.Join(errors.New("set loopback up"), err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	far, err := netns.New()
	if err != nil {
		return nil, fmt.Errorf("make network namespace: %w", err)
	}
	defer far.Close() // the socket keeps it
	if err := w.enterFar(); err != nil {
		return nil, err
	}
	if err := netns.Set(home); err != nil {
		return nil, fmt.Errorf("go back to the first namespace: %w", err)
	}
	if w.netlink, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	if w.near, err = openSocket(true); err != nil {
		return nil, err
	}
	for _, n := range f.Names("interface") {
		c, i := f.Interface(n), len(w.devices)
		if slices.Contains(made, c.Device) {
			continue
		}
		d := device{name: name(n), dev: c.Device, mac: nearMAC(i), port: slices.Contains(ports, c.Device)}
		mtu := 1500
		if h, ok := host[c.Device]; ok {
			d.mac, mtu = h.MAC, h.MTU
		}
		if c.MTU != 0 {
			mtu = c.MTU
		}
		if err := w.add(d, i, mtu, far); err != nil {
			return nil, fmt.Errorf("make a device for interface.%s: %w", n, err)
		}
	}
	if err := w.addPorts(f, host, made, ports, far); err != nil {
		return nil, err
	}
	if err := netns.Set(far); err != nil {
		return nil, fmt.Errorf("enter the far namespace: %w", err)
	}
	for i := range w.devices {
		if err := w.setUpFar(i); err != nil {
			return nil, err
		}
	}
	if err := netns.Set(home); err != nil {
		return nil, fmt.Errorf("go back to the first namespace: %w", err)
	}
	return w, nil
}

// addPorts adds the devices of bridges' ports that no interface has: without a port that
// is up a bridge is down.
func (w *topology) addPorts(f *config.File, host map[string]HostDevice, made, ports []string, far netns.NsHandle) error {
	has := map[string]bool{}
	for _, name := range made {
		has[name] = true
	}
	for _, n := range f.Names("interface") {
		has[f.Interface(n).Device] = true
	}
	for _, p := range ports {
		if has[p] {
			continue
		}
		has[p] = true
		i := len(w.devices)
		d, mtu := device{name: p, dev: p, mac: nearMAC(i), port: true}, 1500
		if h, ok := host[p]; ok {
			d.mac, mtu = h.MAC, h.MTU
		}
		if err := w.add(d, i, mtu, far); err != nil {
			return fmt.Errorf("make a device for the port %s: %w", p, err)
		}
	}
	return nil
}

func (w *topology) close() { _ = errors.Join(w.near.close(), w.far.close()); w.netlink.Close() }

// quiet are settings under which a router says nothing of its own accord and
// limits no ICMP error.
var quiet = []struct {
	name, value string
	optional    bool // not in every kernel, or not in every namespace
}{
	{"net/ipv6/conf/default/dad_transmits", "0", false},
	{"net/ipv6/conf/default/accept_dad", "0", false},
	{"net/ipv6/conf/default/accept_ra", "0", false},
	{"net/ipv6/conf/default/router_solicitations", "0", false},
	{"net/ipv6/conf/default/mldv2_unsolicited_report_interval", "86400000", false},
	{"net/ipv4/icmp_ratelimit", "0", false},
	{"net/ipv4/icmp_ratemask", "0", false},
	{"net/ipv6/icmp/ratelimit", "0", false},
	{"net/ipv4/icmp_msgs_per_sec", "1000000", true},
	{"net/ipv4/icmp_msgs_burst", "1000000", true},
}

// patient are settings of a device, by family, under which the kernel asks for
// each neighbour once and waits for ever.
var patient = []struct{ name, value string }{
	{"retrans_time_ms", "86400000"},
	{"base_reachable_time_ms", "86400000"},
	{"delay_first_probe_time", "86400"},
	// The kernel's ICMP errors of all namespaces share a socket for each CPU: those that
	// wait here for a neighbour must not use up its buffer.
	{"unres_qlen_bytes", "8192"},
}

const ipv6Least = 1280 // RFC 8200 section 5: below it the kernel has no IPv6 on a device

func prepareNear() error {
	for _, s := range quiet {
		if err := writeSysctl(s.name, s.value); err != nil && !s.optional {
			return err
		}
	}
	return nil
}

func writeSysctl(name, value string) error {
	if err := os.WriteFile("/proc/sys/"+name, []byte(value), 0o644); err != nil {
		return fmt.Errorf("write sysctl %s: %w", name, err)
	}
	return nil
}

// enterFar prepares the namespace without addresses.
func (w *topology) enterFar() (err error) {
	for _, s := range []string{"net/ipv6/conf/all/disable_ipv6", "net/ipv6/conf/default/disable_ipv6"} {
		if err := writeSysctl(s, "1"); err != nil {
			return err
		}
	}
	if err := writeSysctl("net/ipv4/ip_forward", "0"); err != nil {
		return err
	}
	w.far, err = openSocket(false)
	return err
}

func farName(i int) string { return fmt.Sprintf("far%d", i) }

func (w *topology) add(d device, i, mtu int, far netns.NsHandle) error {
	veth := &netlink.Veth{
		LinkAttrs: netlink.NewLinkAttrs(), PeerName: farName(i), PeerNamespace: netlink.NsFd(int(far)),
		PeerHardwareAddr: hardware(farMAC), PeerMTU: uint32(mtu),
	}
	veth.Name, veth.HardwareAddr, veth.MTU = d.dev, hardware(d.mac), mtu
	if err := w.netlink.LinkAdd(veth); err != nil {
		return fmt.Errorf("make veth device %s: %w", d.dev, err)
	}
	l, err := w.netlink.LinkByName(d.dev)
	if err != nil {
		return err
	}
	d.nearIndex = l.Attrs().Index
	// what leaves must have its checksums on the wire, as behind real hardware
	if err := ethtool.Switch(d.dev, ethtool.TransmitChecksum, false); err != nil {
		return err
	}
	for _, s := range patient {
		for _, family := range []string{"ipv4", "ipv6"} {
			if family == "ipv6" && mtu < ipv6Least {
				continue
			}
			if err := writeSysctl("net/"+family+"/neigh/"+d.dev+"/"+s.name, s.value); err != nil {
				return err
			}
		}
	}
	w.devices = append(w.devices, d)
	return w.netlink.LinkSetUp(l)
}

// setUpFar runs in the far namespace.
func (w *topology) setUpFar(i int) error {
	l, err := netlink.LinkByName(farName(i))
	if err != nil {
		return fmt.Errorf("find far end of %s: %w", w.devices[i].dev, err)
	}
	w.devices[i].farIndex = l.Attrs().Index
	if err := netlink.LinkSetUp(l); err != nil {
		return fmt.Errorf("set far end of %s up: %w", w.devices[i].dev, err)
	}
	// with GRO, switched on while it is up, the far end can take what XDP
	// redirects to the near one
	return ethtool.Switch(farName(i), ethtool.Receive, true)
}

// Gateways of the default routes that this package adds.
var (
	gateway4 = netip.MustParseAddr("169.254.119.1")
	gateway6 = netip.MustParseAddr("fe80::77:6566:7401")
)

// lastResort is the metric of those routes: any other one comes first.
const lastResort = 1 << 30

// readyLimit is how long devices may take, which is a moment, on a busy machine.
const readyLimit = 30 * time.Second

// ready waits until every device carries frames and has its link-local
// address, and throws away what was said on the way.
func (w *topology) ready() error {
	deadline := time.Now().Add(readyLimit)
	for {
		waiting, err := w.notUp()
		if err != nil {
			return err
		}
		if waiting == "" {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("wait for %s: not up after %s", waiting, readyLimit)
		}
		time.Sleep(time.Millisecond)
	}
	for time.Now().Before(deadline) {
		// the far ends' queues open a moment after their devices
		if _, err := w.barrier(50 * time.Millisecond); err == nil {
			return nil
		} else if !errors.Is(err, errNoBarrier) {
			return err
		}
	}
	return fmt.Errorf("wait for the devices: no frame comes through after %s", readyLimit)
}

// notUp names a device of the near namespace that is not ready, be it ours or
// the router's; empty when all are. Until then a device drops what it is given.
func (w *topology) notUp() (string, error) {
	links, err := w.netlink.LinkList()
	if errors.Is(err, netlink.ErrDumpInterrupted) {
		return "devices that come or go", nil
	}
	if err != nil {
		return "", fmt.Errorf("list devices: %w", err)
	}
	for _, l := range links {
		a := l.Attrs()
		if a.Flags&net.FlagLoopback == 0 && a.RawFlags&unix.IFF_UP != 0 && a.OperState != netlink.OperUp {
			return a.Name, nil
		}
	}
	addresses, err := w.netlink.AddrList(nil, netlink.FAMILY_V6)
	if errors.Is(err, netlink.ErrDumpInterrupted) {
		return "addresses that come or go", nil
	}
	if err != nil {
		return "", fmt.Errorf("list addresses: %w", err)
	}
	for _, a := range addresses {
		if a.Flags&unix.IFA_F_TENTATIVE != 0 {
			return "address " + a.IP.String(), nil
		}
	}
	return "", nil
}
