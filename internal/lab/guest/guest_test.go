package guest

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// TestMain lets the test binary play the roles that a guest needs of it.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "guest" {
		os.Exit(Main(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// needRoot skips where the machine cannot do it at all; a missing Debian
// package is a failure, by Start's own error.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		t.Skip("needs /dev/net/tun: ", err)
	}
}

// bench is a network namespace of the test's own, to stand for the lab's.
//
//	test's namespace: tap0 10.9.0.1/24 fd09::1/64 --- NIC lan0 of the guest, .2 ::2
type bench struct {
	t    *testing.T
	path string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	needRoot(t)
	made := make(chan error)
	var file *os.File
	go func() {
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			file, err = os.Open("/proc/thread-self/ns/net")
		}
		made <- err
	}()
	if err := <-made; err != nil {
		t.Fatal("make a network namespace: ", err)
	}
	t.Cleanup(func() { file.Close() })
	b := &bench{t: t, path: "/proc/" + strconv.Itoa(os.Getpid()) + "/fd/" + strconv.Itoa(int(file.Fd()))}
	b.do(func() error {
		lo, err := netlink.LinkByName("lo")
		return errors.Join(err, netlink.LinkSetUp(lo))
	})
	return b
}

func (b *bench) do(f func() error) {
	b.t.Helper()
	if err := inNetns(b.path, f); err != nil {
		b.t.Fatal(err)
	}
}

// tap makes a tap with addresses and sets it up.
func (b *bench) tap(name string, addresses ...string) {
	b.t.Helper()
	b.do(func() error {
		tap := &netlink.Tuntap{
			LinkAttrs: netlink.LinkAttrs{Name: name}, Mode: netlink.TUNTAP_MODE_TAP,
			Flags: netlink.TUNTAP_NO_PI | netlink.TUNTAP_VNET_HDR,
		}
		if err := netlink.LinkAdd(tap); err != nil {
			return err
		}
		for _, a := range addresses {
			if err := netlink.AddrAdd(tap, &netlink.Addr{IPNet: ipNet(netip.MustParsePrefix(a)), Flags: unix.IFA_F_NODAD}); err != nil {
				return err
			}
		}
		return netlink.LinkSetUp(tap)
	})
}

// run runs a command in the namespace and returns its output.
func (b *bench) run(argv ...string) string {
	b.t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	var output []byte
	b.do(func() error {
		output, _ = cmd.CombinedOutput() // how it ended is in ProcessState
		return nil
	})
	if !cmd.ProcessState.Success() {
		b.t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), cmd.ProcessState, output)
	}
	return string(output)
}

// processes lists the command lines of what runs in the namespace.
func (b *bench) processes() []string {
	b.t.Helper()
	here, err := os.Stat(b.path)
	if err != nil {
		b.t.Fatal(err)
	}
	pids, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		b.t.Fatal(err)
	}
	var found []string
	for _, pid := range pids {
		there, err := os.Stat(pid + "/ns/net")
		if err == nil && os.SameFile(here, there) {
			line, _ := os.ReadFile(pid + "/cmdline")
			found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}

// shortDir is a directory whose path leaves room for sockets' names.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "guest-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "g")
}

func (b *bench) start(spec Spec) *Machine {
	b.t.Helper()
	spec.Netns = b.path
	spec.Patience = 3 * time.Minute // emulated ones are slow on a busy machine
	m, err := Start(b.t.Context(), spec)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if b.t.Failed() {
			if console, err := os.ReadFile(m.Log()); err == nil {
				b.t.Logf("console of %s:\n%s", spec.Name, console)
			}
		}
		if err := m.Stop(context.Background()); err != nil {
			b.t.Error(err)
		}
	})
	return m
}

func mustExec(t *testing.T, m *Machine, argv ...string) string {
	t.Helper()
	output, exit, err := m.Exec(t.Context(), argv...)
	if err != nil || exit != 0 {
		t.Fatalf("%s: exit %d, %v\n%s", strings.Join(argv, " "), exit, err, output)
	}
	return string(output)
}

func lanNIC() NIC {
	return NIC{Name: "lan0", Tap: "tap0", Addresses: []netip.Prefix{
		netip.MustParsePrefix("10.9.0.2/24"), netip.MustParsePrefix("fd09::2/64"),
	}}
}

var kinds = map[string]Spec{
	"uml":       {Kind: UML},
	"qemu-6.12": {Kind: QEMU, Kernel: "6.12"},
	"qemu-6.1":  {Kind: QEMU, Kernel: "6.1"},
}

func TestAGuestOfEachKindTalksOverItsTapAndLoadsModulesItsHostLacks(t *testing.T) {
	for name, spec := range kinds {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.tap("tap0", "10.9.0.1/24", "fd09::1/64")
			spec.Name, spec.Dir = "g1", shortDir(t)
			spec.NICs = []NIC{lanNIC()}
			spec.NICs[0].MTU = 1400
			spec.Modules = []string{"vrf", "sch_netem"}
			spec.Programs = []string{"ip"}
			spec.Forward = true
			spec.Sysctls = map[string]string{"net.ipv4.conf.lan0.rp_filter": "2"}
			spec.Files = map[string][]byte{"/etc/weft/weft.toml": []byte("a file\n")}
			spec.Routes = []Route{{Destination: netip.MustParsePrefix("0.0.0.0/0"), Via: netip.MustParseAddr("10.9.0.1")}}
			spec.Script = "ip link add red type vrf table 7\nip link set red up\n"
			m := b.start(spec)

			b.run("ping", "-c", "2", "-i", "0.01", "-W", "2", "10.9.0.2")
			b.run("ping", "-c", "2", "-i", "0.01", "-W", "2", "fd09::2")
			mustExec(t, m, "ping", "-c", "1", "-W", "2", "10.9.0.1")
			for what, want := range map[string]string{
				"cat /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv6/conf/all/forwarding /proc/sys/net/ipv4/conf/lan0/rp_filter": "1\n1\n2\n",
				"cat /sys/class/net/lan0/mtu": "1400\n",
				"cat /etc/weft/weft.toml":     "a file\n",
				"hostname":                    "g1\n",
				"ip route show default":       "default via 10.9.0.1 dev lan0 \n",
				"grep -c -e '^vrf ' -e '^sch_netem ' /proc/modules": "2\n",
				"cat /sys/class/net/red/operstate":                  "up\n",
			} {
				if got := mustExec(t, m, "sh", "-c", what); got != want {
					t.Errorf("%s: %q, want %q", what, got, want)
				}
			}
		})
	}
}
