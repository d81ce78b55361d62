// Package lab builds small networks of network namespaces and guests, runs checks in
// them, and removes them completely. A TOML file, the scenario, has a lab's nodes
// and checks.
package lab

import (
	"encoding"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Scenario is one topology with its checks, as written.
type Scenario struct {
	Title   string  `toml:"title"`   // one line
	About   string  `toml:"about"`   // a paragraph
	Picture string  `toml:"picture"` // drawn by hand; "" = drawn from the links
	Nodes   []Node  `toml:"node"`
	Links   []Link  `toml:"link"`
	Checks  []Check `toml:"check"`
}

// Kind is the kind of a node.
type Kind string

const (
	Namespace Kind = "netns" // a network namespace; the default
	UML       Kind = "uml"   // a guest: User-Mode Linux
	QEMU      Kind = "qemu"  // a guest: QEMU
)

// IsGuest reports whether the node has a kernel of its own.
func (k Kind) IsGuest() bool { return k == UML || k == QEMU }

// Node is one machine of the lab.
type Node struct {
	Name      string            `toml:"name"`
	Kind      Kind              `toml:"kind"`
	About     string            `toml:"about"`   // a few words for the picture
	Forward   bool              `toml:"forward"` // route packets of others
	Switch    bool              `toml:"switch"`  // its devices are the ports of one bridge
	Gateway   []netip.Addr      `toml:"gateway"` // default gateways, at most one a family
	Routes    []Route           `toml:"route"`
	Sysctls   map[string]string `toml:"sysctls"` // net.* only
	Weft      string            `toml:"weft"`    // weft.toml, or the name of a file with it
	Files     map[string]string `toml:"files"`   // name -> text, written to the node's directory; of a guest: absolute path -> text
	Processes []Process         `toml:"process"` // started in order
	Modules   []string          `toml:"modules"` // guests: kernel modules to load
	Kernel    string            `toml:"kernel"`  // guests: which kernel
	Root      string            `toml:"root"`    // QEMU guests: "host" is this machine's root under an overlay
	Init      string            `toml:"init"`    // with that root: "systemd" is PID 1
	MemoryMiB int               `toml:"memory"`  // guests
	Script    string            `toml:"script"`  // guests: shell commands once the network is up
	Beside    string            `toml:"beside"`  // guests: the node in whose namespace it runs, for its wires
	Wires     []Wire            `toml:"wire"`    // guests: network cards that are no end of a link
	Programs  []HostProgram     `toml:"program"` // guests: programs of the host that the script runs; QEMU's get them, UML's have them
}

// Route is one static route. Via, Device or both.
type Route struct {
	To     netip.Prefix `toml:"to"`
	Via    netip.Addr   `toml:"via"`
	Device string       `toml:"device"`
	MTU    int          `toml:"mtu"` // bytes, locked; 0 = the device's
}

// Wire is a network card of a guest that its virtual machine carries itself,
// in a pseudowire.
type Wire struct {
	Device    string         `toml:"device"`
	Options   string         `toml:"options"` // behind vecN: for User-Mode Linux, behind -netdev for QEMU
	Addresses []netip.Prefix `toml:"addresses"`
	MTU       int            `toml:"mtu"` // bytes; 0 = 1500
	MAC       string         `toml:"mac"` // "" = made from the names
}

// HostProgram is a program of the host, with its libraries; or files of the
// host by a pattern of absolute paths, like /usr/lib/pppd/*/pppoe.so.
type HostProgram struct {
	Name  string `toml:"name"`
	Needs string `toml:"needs"` // the Debian packages that bring it, and what else there must be
}

// Process is a program that runs in a node. In Argv, {dir} stands for the
// node's directory and {weft} for this program.
type Process struct {
	Name  string   `toml:"name"`
	Argv  []string `toml:"argv"`
	Once  bool     `toml:"once"`  // must end with status 0 before the lab goes on
	First bool     `toml:"first"` // before weft: it makes devices that weft.toml names
	Needs string   `toml:"needs"` // the Debian package that brings it
	Ready []string `toml:"ready"` // ends with status 0 once the process does its work
}

// Link is a cable between two nodes.
type Link struct {
	Ends   []End    `toml:"ends"`
	MTU    int      `toml:"mtu"`  // bytes; 0 = 1500
	Rate   Rate     `toml:"rate"` // each way; 0 = as fast as it goes
	Delay  Duration `toml:"delay"`
	Jitter Duration `toml:"jitter"`
	Loss   float64  `toml:"loss"` // percent
	Via    string   `toml:"via"`  // "guest": through a guest whose kernel has netem
}

// Impaired reports whether the link needs netem.
func (l Link) Impaired() bool { return l.Delay != 0 || l.Jitter != 0 || l.Loss != 0 }

// End is where a link meets a node.
type End struct {
	Node      string         `toml:"node"`
	Device    string         `toml:"device"`
	Addresses []netip.Prefix `toml:"addresses"`
	MAC       string         `toml:"mac"` // "" = made from the places in the file
}

// Place is a node's device, written node:device.
type Place struct{ Node, Device string }

// UnmarshalText reads node:device.
func (p *Place) UnmarshalText(b []byte) error {
	node, device, ok := strings.Cut(string(b), ":")
	if !ok || node == "" || device == "" {
		return fmt.Errorf("%q is not of the form node:device", b)
	}
	*p = Place{node, device}
	return nil
}

func (p Place) String() string { return p.Node + ":" + p.Device }

// CheckKind is the kind of a check.
type CheckKind string

const (
	CheckPing     CheckKind = "ping"
	CheckTransfer CheckKind = "transfer"
	CheckUDP      CheckKind = "udp"
	CheckPMTU     CheckKind = "pmtu"
	CheckObserve  CheckKind = "observe"
	CheckExec     CheckKind = "exec"
	CheckCounters CheckKind = "counters"
	CheckTakeover CheckKind = "takeover" // a node is killed while a transfer runs
	CheckKill     CheckKind = "kill"     // a node loses its power
	CheckRevive   CheckKind = "revive"   // it comes back, as new
	CheckReboot   CheckKind = "reboot"   // a guest is switched off and on
	CheckReload   CheckKind = "reload"   // a router gets another weft.toml while a transfer runs
)

// Check is one check with its expected result. checkFields has the fields of each
// kind.
type Check struct {
	Kind    CheckKind  `toml:"kind"`
	Name    string     `toml:"name"` // a sentence
	From    string     `toml:"from"` // node that begins
	To      Address    `toml:"to"`   // address it uses
	At      string     `toml:"at"`   // node that answers at To
	Count   int        `toml:"count"`
	Size    int        `toml:"size"`  // payload bytes
	Sizes   []int      `toml:"sizes"` // payload bytes
	Tries   int        `toml:"tries"` // how often a datagram is sent whose echo does not come; 0: once
	Bytes   Size       `toml:"bytes"`
	Fails   bool       `toml:"fails"`  // nothing may come through
	MTU     int        `toml:"mtu"`    // what must be learnt
	Places  []Place    `toml:"places"` // where frames are watched
	Routed  bool       `toml:"routed"` // the packet must look routed from place to place
	Node    string     `toml:"node"`
	Argv    []string   `toml:"argv"`
	Expect  string     `toml:"expect"`  // must be in the output
	Counted []string   `toml:"counted"` // counters that must be above zero
	Kill    string     `toml:"kill"`    // node
	Within  Duration   `toml:"within"`  // silence at most
	Change  [][]string `toml:"change"`  // reload: what stands in weft.toml, and what instead
}

// Address is an IP address that is shown as it was written: an IPv4 address
// inside an IPv6 one stays readable.
type Address struct {
	netip.Addr
	text string
}

// UnmarshalText reads an address.
func (a *Address) UnmarshalText(b []byte) error {
	addr, err := netip.ParseAddr(string(b))
	if err != nil {
		return fmt.Errorf("%q is not an IP address", b)
	}
	*a = Address{addr, string(b)}
	return nil
}

func (a Address) String() string { return a.text }

// Duration is a time.Duration written like 50ms.
type Duration time.Duration

// UnmarshalText reads time.ParseDuration's form.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err == nil && v < 0 {
		err = fmt.Errorf("%s is negative", b)
	}
	*d = Duration(v)
	return err
}

func (d Duration) String() string { return time.Duration(d).String() }

// Size is a number of bytes, written like 16MiB, 64KiB or 100B.
type Size int64

// UnmarshalText reads a number with a unit.
func (s *Size) UnmarshalText(b []byte) error {
	n, err := scaled(string(b), []unit{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"B", 1}})
	*s = Size(n)
	return err
}

func (s Size) String() string { return binarySize(int64(s)) }

// Rate is a bit rate in bits per second, written like 10mbit.
type Rate int64

// UnmarshalText reads a number with a unit.
func (r *Rate) UnmarshalText(b []byte) error {
	n, err := scaled(string(b), []unit{{"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}})
	*r = Rate(n)
	return err
}

func (r Rate) String() string { return decimalRate(float64(r)) }

var (
	_ encoding.TextUnmarshaler = (*Duration)(nil)
	_ encoding.TextUnmarshaler = (*Size)(nil)
	_ encoding.TextUnmarshaler = (*Rate)(nil)
	_ encoding.TextUnmarshaler = (*Place)(nil)
)

type unit struct {
	suffix string
	factor int64
}

func scaled(s string, units []unit) (int64, error) {
	var names []string
	for _, u := range units {
		names = append(names, u.suffix)
		digits, ok := strings.CutSuffix(s, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
		if err != nil || !(n >= 0 && n*float64(u.factor) <= 1<<50) { // NaN is neither
			break
		}
		return int64(n * float64(u.factor)), nil
	}
	return 0, fmt.Errorf("%q is not a number with one of the units %s", s, strings.Join(names, ", "))
}
