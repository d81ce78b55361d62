package ability

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// deprived names, in the environment of a child process, what that does to itself
// before it looks.
const deprived = "WEFT_TEST_DEPRIVED"

// deprivations take something from the calling thread.
var deprivations = map[string]func() error{
	"nothing":       func() error { return nil },
	"CAP_NET_ADMIN": func() error { return drop(unix.CAP_NET_ADMIN) },
	"CAP_BPF":       func() error { return drop(unix.CAP_BPF, unix.CAP_SYS_ADMIN) },
	"CAP_PERFMON":   func() error { return drop(unix.CAP_PERFMON, unix.CAP_SYS_ADMIN) },
	"CAP_SYS_ADMIN": func() error { return drop(unix.CAP_SYS_ADMIN) },
	"bpf":           func() error { return forbid(nil, unix.EPERM) },
	"bpf, unknown":  func() error { return forbid(nil, unix.ENOSYS) },
	"TCX":           func() error { return forbid(ptr(uint32(unix.BPF_LINK_CREATE)), unix.EINVAL) },
	"memlock":       func() error { return unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{}) },
	"BTF":           func() error { return cover("/sys/kernel/btf") },
	"bpffs":         func() error { return cover(bpffs) },
	"bpffs, unable": func() error {
		if err := cover(bpffs); err != nil {
			return err
		}
		return drop(unix.CAP_SYS_ADMIN)
	},
	"tun":   func() error { return cover("/dev") },
	"users": func() error { return nil }, // the child begins in a namespace of its own
}

func ptr[T any](v T) *T { return &v }

// drop takes capabilities out of the thread's effective set.
func drop(bits ...int) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err
	}
	for _, bit := range bits {
		data[bit/32].Effective &^= 1 << (bit % 32)
	}
	return unix.Capset(&header, &data[0])
}

// cover hides a directory from this thread alone.
func cover(dir string) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	return unix.Mount("tmpfs", dir, "tmpfs", 0, "")
}

// forbid filters bpf(), or only one command of it.
func forbid(command *uint32, answer unix.Errno) error {
	const load, equal, give = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_RET | unix.BPF_K
	program := []unix.SockFilter{{Code: load, K: 0}, {Code: equal, K: unix.SYS_BPF, Jf: 1}}
	if command != nil {
		program = []unix.SockFilter{{Code: load, K: 0}, {Code: equal, K: unix.SYS_BPF, Jf: 3}, {Code: load, K: 16}, {Code: equal, K: *command, Jf: 1}}
	}
	program = append(program, unix.SockFilter{Code: give, K: unix.SECCOMP_RET_ERRNO | uint32(answer)}, unix.SockFilter{Code: give, K: unix.SECCOMP_RET_ALLOW})
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, number := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&filter)))
	runtime.KeepAlive(program)
	if number != 0 {
		return number
	}
	return nil
}

func TestMain(m *testing.M) {
	what := os.Getenv(deprived)
	if what == "" {
		os.Exit(m.Run())
	}
	runtime.LockOSThread()
	if err := deprivations[what](); err != nil {
		fmt.Println("cannot be tried:", err)
		os.Exit(0)
	}
	if l := MissingTun(); l != nil {
		fmt.Println(l)
	}
	if l := Missing(bpffs + "/weft/1"); l != nil {
		fmt.Println(l)
	} else {
		fmt.Println("nothing is missing")
	}
	os.Exit(0)
}

func TestTheOneMissingThingIsNamed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	for what, want := range map[string]string{
		"nothing":       "nothing is missing",
		"CAP_NET_ADMIN": "lacks CAP_NET_ADMIN",
		"CAP_BPF":       "lacks CAP_BPF",
		"CAP_PERFMON":   "lacks CAP_PERFMON",
		"CAP_SYS_ADMIN": "nothing is missing", // the packaged unit has it; a container need not
		"bpf":           "a seccomp filter forbids the system call bpf() (operation not permitted): in a unit add bpf to SystemCallFilter=",
		"bpf, unknown":  "a seccomp filter forbids the system call bpf()",
		"TCX":           "the kernel cannot attach programs by TCX",
		"memlock":       "nothing is missing", // the kernels that weft runs on account maps to the cgroup
		"BTF":           "has no BTF",
		"bpffs":         "nothing is missing", // weft mounts it
		"bpffs, unable": "no bpf file system is mounted on /sys/fs/bpf, and the process may not mount it: mount -t bpf",
		"tun":           "/dev/net/tun cannot be opened (no such file or directory): modprobe tun",
		"users":         "is in a user namespace",
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c := exec.Command("/proc/self/exe")
			c.Env = append(os.Environ(), deprived+"="+what)
			if what == "users" {
				ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}}
				c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: ids, GidMappings: ids}
			}
			out, err := c.CombinedOutput()
			if err != nil && what == "users" && len(out) == 0 {
				t.Skipf("the kernel makes no user namespaces here: %v", err)
			}
			if err != nil || !strings.Contains(string(out), want) {
				t.Errorf("%v: it says %q, want %q", err, out, want)
			}
		})
	}
}
