// Package ability finds out what keeps this process from loading weft's programs:
// a missing capability, a filter of system calls, a kernel without something. The
// host may be a container or a hardened unit, where the kernel only says EPERM.
package ability

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Lack is the one thing that is missing, and what to do.
type Lack struct {
	What, Remedy string
	Stops        bool // weft cannot start; otherwise single steps fail
}

func (l *Lack) Error() string { return l.What + ": " + l.Remedy }

// where the kernel shows what it has
const (
	bpffs = "/sys/fs/bpf"
	btf   = "/sys/kernel/btf/vmlinux"
)

// noSuchDevice is an index that no device has.
const noSuchDevice = 0x7ffffffe

// Tun is what TAP devices are made with.
const Tun = "/dev/net/tun"

// MissingTun returns why TAP devices cannot be opened, nil if they can. Few
// sections need them.
func MissingTun() *Lack {
	fd, err := unix.Open(Tun, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
		return nil
	}
	return &Lack{fmt.Sprintf("%s cannot be opened (%v)", Tun, err),
		"modprobe tun; in a unit add DeviceAllow=" + Tun + " rw, in a container --device " + Tun, false}
}

// Missing returns the first thing that the process lacks, nil if it can load and
// attach programs. It changes nothing. Of the process it looks at the calling
// thread. Pins is where the maps are to be pinned.
func Missing(pins string) *Lack {
	effective, err := capabilities()
	if err != nil {
		return &Lack{err.Error(), "look for a filter of system calls", false}
	}
	for _, check := range []func() *Lack{
		func() *Lack { return missingCapability(effective) },
		missingBPF,
		missingBTF,
		missingTCX,
		func() *Lack { return missingFileSystem(pins, effective) },
	} {
		if l := check(); l != nil {
			return l
		}
	}
	return nil
}

// capabilities returns the effective ones of the thread, a bit each.
func capabilities() (uint64, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return 0, fmt.Errorf("read the capabilities of the process: %w", err)
	}
	return uint64(data[0].Effective) | uint64(data[1].Effective)<<32, nil
}

func has(set uint64, bit int) bool { return set&(1<<bit) != 0 }

// missingCapability: CAP_SYS_ADMIN stands for CAP_BPF and CAP_PERFMON, which are newer.
func missingCapability(effective uint64) *Lack {
	const remedy = "run weft as root; in a unit add it to CapabilityBoundingSet=, in a container give it with --cap-add"
	admin := has(effective, unix.CAP_SYS_ADMIN)
	switch {
	case !has(effective, unix.CAP_NET_ADMIN):
		return &Lack{"the process lacks CAP_NET_ADMIN, which network settings need", remedy, true}
	case !admin && !has(effective, unix.CAP_BPF):
		return &Lack{"the process lacks CAP_BPF, which loading programs needs", remedy, true}
	case !admin && !has(effective, unix.CAP_PERFMON):
		return &Lack{"the process lacks CAP_PERFMON, which the kernel's check of programs needs", remedy, false}
	}
	return nil
}

// missingBPF makes a map and a program of two instructions.
func missingBPF() *Lack {
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	if err == nil {
		err = m.Close()
	}
	if err == nil {
		return nil
	}
	switch {
	case inUserNamespace():
		return &Lack{"the process is in a user namespace, where the kernel loads no programs",
			"run weft on the host, or in a container with the host's users (privileged, no userns)", true}
	case filtered():
		return &Lack{fmt.Sprintf("a seccomp filter forbids the system call bpf() (%v)", cause(err)),
			"in a unit add bpf to SystemCallFilter=; in a container use a seccomp profile that permits bpf", true}
	case errors.Is(err, unix.ENOSYS):
		return &Lack{"the kernel has no bpf() (CONFIG_BPF_SYSCALL)", "use a kernel of a distribution, 6.6 or newer", true}
	case locked() && (errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOMEM)):
		return &Lack{"the limit of locked memory is too small for maps (RLIMIT_MEMLOCK)", "set LimitMEMLOCK=infinity in the unit, or ulimit -l unlimited", true}
	}
	return &Lack{fmt.Sprintf("the kernel refuses to make an eBPF map (%v)", cause(err)),
		"look for kernel lockdown (/sys/kernel/security/lockdown) and for security modules that forbid bpf()", true}
}

// cause is the error of the system call alone.
func cause(err error) error {
	var number unix.Errno
	if errors.As(err, &number) {
		return number
	}
	return err
}

func missingBTF() *Lack {
	if _, err := os.Stat(btf); err == nil {
		return nil
	}
	return &Lack{"the kernel has no BTF (" + btf + " is missing)",
		"use a kernel with CONFIG_DEBUG_INFO_BTF, as distributions build it; in a container mount the host's /sys", false}
}

// missingTCX attaches a program to a device that does not exist: a kernel with TCX
// looks for the device, others refuse the type.
func missingTCX() *Lack {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()}})
	if err != nil {
		return &Lack{fmt.Sprintf("the kernel refuses to load a program (%v)", cause(err)),
			"look for kernel lockdown (/sys/kernel/security/lockdown) and for security modules that forbid bpf()", false}
	}
	defer p.Close()
	l, err := link.AttachTCX(link.TCXOptions{Interface: noSuchDevice, Program: p, Attach: ebpf.AttachTCXIngress})
	if err == nil {
		l.Close()
		return nil
	}
	if errors.Is(err, unix.ENODEV) {
		return nil
	}
	return &Lack{fmt.Sprintf("the kernel cannot attach programs by TCX (%v)", cause(err)), "use Linux 6.6 or newer with CONFIG_NET_XGRESS", false}
}

func missingFileSystem(pins string, effective uint64) *Lack {
	if isBPF(bpffs) || !strings.HasPrefix(pins, bpffs+"/") || has(effective, unix.CAP_SYS_ADMIN) && !filtered() {
		return nil // it is there, a parent's is used, or weft mounts it
	}
	return &Lack{"no bpf file system is mounted on " + bpffs + ", and the process may not mount it",
		"mount -t bpf bpf " + bpffs + " (in a container mount the host's)", true}
}

func isBPF(dir string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(dir, &fs) == nil && fs.Type == unix.BPF_FS_MAGIC
}

// inUserNamespace reports whether the process is not in the first user namespace,
// which has all ids.
func inUserNamespace() bool {
	text, err := os.ReadFile("/proc/thread-self/uid_map")
	fields := strings.Fields(string(text))
	return err == nil && (len(fields) != 3 || fields[0] != "0" || fields[1] != "0" || fields[2] != "4294967295")
}

// filtered reports whether a filter of system calls is in force.
func filtered() bool {
	text, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		if mode, ok := strings.CutPrefix(line, "Seccomp:"); ok {
			return strings.TrimSpace(mode) == "2"
		}
	}
	return false
}

// locked reports whether the limit of locked memory is small.
func locked() bool {
	var l unix.Rlimit
	return unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l) == nil && l.Cur < 64<<20
}
