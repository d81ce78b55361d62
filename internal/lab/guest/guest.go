// Package guest runs whole kernels as nodes of a lab: User-Mode Linux and
// QEMU, for what the host's own kernel lacks (netem, VRF, L2TP, PPP, GRE,
// bridge VLAN filtering) and for trying weft on a kernel of choice.
//
// A guest is three processes of one binary. On the host a supervisor, PID 1 of
// its own PID and mount namespaces, starts the guest's kernel and relays its
// console and its control line to unix sockets in the guest's directory. In
// the guest the same binary is PID 1, and an agent that sets up the network as
// the Spec says, then runs commands. A program that uses this package must
// therefore hand the arguments after its guest role to Main; see Spec.Self.
package guest

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"time"
)

// Kind is the virtual machine of the guest's kernel.
type Kind string

const (
	UML  Kind = "uml"  // Debian's user-mode-linux, the host's files as its root
	QEMU Kind = "qemu" // a Debian kernel with an initramfs made for it
)

// NIC is one Ethernet interface of a guest, wired to a tap on the host.
type NIC struct {
	Name string // inside the guest
	// Tap is an existing tap in the guest's network namespace, single queue.
	// It must be up before the guest starts and stay up: UML gives a NIC up
	// for good when its tap refuses a frame. Set a bridge down instead.
	Tap string
	// Backend is what the guest's kernel (UML) or its machine (QEMU) sends and
	// receives frames by instead of a tap: what stands behind vecN: or
	// -netdev, like "transport=gre,src=127.0.0.2,dst=127.0.0.1".
	Backend   string
	MAC       net.HardwareAddr // nil: derived from the guest's and the NIC's names
	Addresses []netip.Prefix
	MTU       int // bytes, 0 = 1500
}

// Route is one static route of a guest.
type Route struct {
	Destination netip.Prefix
	Via         netip.Addr // the zero Addr: on-link through NIC
	NIC         string     // may be empty where Via says enough
	MTU         int        // bytes, locked; 0 = the NIC's
}

// Spec describes a guest. Start fills in what is left zero.
type Spec struct {
	Kind Kind
	Name string // also the guest's host name
	// Dir is the state directory: made by Start, removed by Stop. It holds
	// the sockets, the console's log and what the guest is made from.
	Dir string
	// Kernel is a version prefix such as "6.1" or "6.12", for QEMU the
	// newest /boot/vmlinuz-* that it fits. UML has the one of its package.
	Kernel   string
	Root     Root     // of QEMU; empty = an initramfs with busybox and Programs
	Init     Init     // with HostRoot; empty = this binary
	Share    string   // with HostRoot: a directory of the host that the guest has at ShareOnHostRoot, read-only
	Memory   int      // MiB; 0 = 128 for UML, 384 for QEMU, 768 with HostRoot
	CPUs     int      // of QEMU; 0 = 1
	options  []string // of tests, for QEMU's kernel
	Modules  []string // loaded in order, after what they depend on
	NICs     []NIC
	Routes   []Route
	Sysctls  map[string]string // "net.ipv4.ip_forward": "1"
	Forward  bool              // forward IPv4 and IPv6
	Files    map[string][]byte // absolute path in the guest -> content, mode 0644, or 0755 of a script with #!; with HostRoot at the first boot only
	Programs []string          // of the host, for QEMU's initramfs, with their libraries; see FindProgram
	Script   string            // /bin/sh commands run when the network is up; with Systemd at the first boot only
	Impair   *Impairment       // join the two NICs as one wire; see ImpairSpec

	// Netns is the path of the network namespace that holds the taps and the
	// guest's processes, as /proc/PID/ns/net; empty = the caller's.
	Netns string
	// Self is the command that reaches Main in this binary, to which the role
	// is appended; nil = this executable and "guest". Self[0] is absolute.
	Self []string
	// Accel is QEMU's accelerator, "kvm" or "tcg"; empty = KVM if a probe of
	// it answers in time, TCG otherwise.
	Accel string
	// Count makes the clock of a QEMU guest advance by a nanosecond with each
	// instruction, and skip idle time: times that the guest measures are counts of
	// instructions, whatever the host's load.
	Count bool
	// Patience limits the time from start to readiness; 0 = 30 s.
	Patience time.Duration
	// Progress is called with what the guest does until it is ready; may be nil.
	Progress func(stage string) `json:"-"`

	wrap wrapping
}

// checked returns the spec with its defaults filled in, or all its mistakes.
func (s Spec) checked() (Spec, error) {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch s.Kind {
	case UML:
		s.Memory = or(s.Memory, 128)
		if s.CPUs > 1 {
			bad("%d CPUs: UML has one", s.CPUs)
		}
		if s.Kernel != "" {
			bad("kernel %q: UML has only the kernel of its package", s.Kernel)
		}
	case QEMU:
		usual := 384
		if s.Root == HostRoot {
			usual = 768
		}
		s.Memory, s.CPUs = or(s.Memory, usual), or(s.CPUs, 1)
		s.Kernel = or(s.Kernel, usualKernel)
		if s.Accel != "" && s.Accel != "kvm" && s.Accel != "tcg" {
			bad("accelerator %q: kvm and tcg are known", s.Accel)
		}
		if s.Count && (s.Accel == "kvm" || s.CPUs > 1) {
			bad("instructions are counted of one emulated CPU: %d CPUs, accelerator %q", s.CPUs, s.Accel)
		}
	default:
		bad("kind %q: uml and qemu are known", s.Kind)
	}
	s.checkRoot(bad)
	if s.Name == "" || strings.ContainsAny(s.Name, " ,=/\n") {
		bad("name %q: a word is needed", s.Name)
	}
	if !filepath.IsAbs(s.Dir) {
		bad("directory %q: not absolute", s.Dir)
	}
	if len(filepath.Join(s.Dir, consoleSocket)) > maxSocketPath {
		bad("directory %q: too long for the name of a unix socket", s.Dir)
	}
	if strings.ContainsAny(s.Dir, " ,=\n") {
		bad("directory %q: blanks, commas and = cannot be on a kernel's command line", s.Dir)
	}
	if s.Impair != nil && len(s.NICs) != 2 {
		bad("an impaired link has two NICs, not %d", len(s.NICs))
	}
	if s.Impair != nil {
		if err := s.Impair.check(); err != nil {
			bad("impairment: %w", err)
		}
	}
	s.Patience = or(s.Patience, 30*time.Second)
	s.NICs = append([]NIC(nil), s.NICs...)
	for i := range s.NICs {
		n := &s.NICs[i]
		if n.Name == "" || (n.Tap == "") == (n.Backend == "") || strings.ContainsAny(n.Backend, " \n") || strings.ContainsAny(n.Name+n.Tap, " ,=/") || len(n.Name) > 15 {
			bad("NIC %d: name %q, tap %q: both are needed, as interface names; or a backend for the tap", i, n.Name, n.Tap)
		}
		if n.MAC == nil {
			n.MAC = derivedMAC(s.Name, n.Name)
		}
		n.MTU = or(n.MTU, 1500)
	}
	if err := errors.Join(errs...); err != nil {
		return s, fmt.Errorf("guest %s: %w", s.Name, err)
	}
	return s, nil
}

// maxSocketPath is sockaddr_un's sun_path without its final zero.
const maxSocketPath = 107

// derivedMAC returns a locally administered unicast address that is the same in
// every run.
func derivedMAC(guest, nic string) net.HardwareAddr {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s/%s", guest, nic)
	sum := h.Sum(nil)
	return net.HardwareAddr{0x02, sum[0], sum[1], sum[2], sum[3], sum[4]}
}

func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}
