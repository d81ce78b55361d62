package guest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Root says where a QEMU guest has its root filesystem from.
type Root string

// HostRoot is the host's own root, read-only by 9p, under an overlay whose upper
// layer is a disk in the memory of the guest's supervisor. What the guest writes
// stays there while it restarts, and goes with the supervisor.
const HostRoot Root = "host"

// Init is the program that is PID 1 of a guest with the host's root.
type Init string

// Systemd boots the host's systemd to multi-user.target. Units that the host has
// enabled are not enabled in the guest.
const Systemd Init = "systemd"

// Places in a guest with the host's root.
const (
	SelfOnHostRoot  = "/run/lab/weft"       // this program
	ShareOnHostRoot = "/run/host"           // Spec.Share
	planOnHostRoot  = "/run/lab/guest.json" // the agent's plan
	hostTag         = "host"                // the 9p export
	diskSize        = 1024                  // MiB, sparse
	mke2fs          = "mke2fs"
	mke2fsPackage   = "e2fsprogs"
	systemdProgram  = "/lib/systemd/systemd"
	systemdPackage  = "systemd"
)

// hostRootModules are what the initramfs needs to mount such a root. Those of the
// second list are built in, or gone, in some kernels.
var hostRootModules, hostRootExtras = []string{"virtio_blk", "ext4", "9p", "9pnet_virtio", "overlay"}, []string{"crc32c_generic", "crc32c"}

// hostRootMounts are the mounts within such a root before PID 1 starts. systemd adds
// the others itself.
var hostRootMounts = [...]mount{
	{"proc", "/proc", ""}, {"sysfs", "/sys", ""}, {"devtmpfs", "/dev", ""},
	{"tmpfs", "/run", "mode=0755"}, {"tmpfs", "/tmp", "mode=1777"},
}

// prepareHostRoot is prepareRoot in an initramfs that leads to the host's root. With
// systemd it does not return.
func prepareHostRoot(plan guestPlan) error {
	for _, m := range systemMounts[:3] {
		if err := m.do("/"); err != nil {
			return err
		}
	}
	if err := loadModules(plan); err != nil {
		return err
	}
	if err := enterHostRoot(plan); err != nil {
		return err
	}
	for _, m := range []mount{{"devpts", "/dev/pts", ""}, {"tmpfs", "/dev/shm", ""}} {
		if err := m.do("/"); err != nil {
			return err
		}
	}
	return nil
}

// enterHostRoot mounts the host's root and makes it the guest's.
func enterHostRoot(plan guestPlan) error {
	report := func(stage string) { tell(plan, message{Stage: stage}) }
	report("its kernel runs, it mounts the host's root")
	first, err := mountHostRoot("/new")
	if err != nil {
		return err
	}
	for _, m := range hostRootMounts {
		if err := m.do("/new"); err != nil {
			return err
		}
	}
	if first {
		if err := errors.Join(freshMachine("/new", plan.Spec), writeFiles("/new", plan.Spec.Files)); err != nil {
			return fmt.Errorf("make the host's root another machine's: %w", err)
		}
		unix.Sync() // these must be there after a power failure
	}
	if err := handOver("/new", plan); err != nil {
		return err
	}
	if plan.Spec.Init != Systemd {
		return enterRoot("/new")
	}
	if err := writeUnits("/new", plan.Spec); err != nil {
		return fmt.Errorf("write the units of the lab: %w", err)
	}
	// before udev comes, which keeps the names that it finds given
	for _, n := range plan.Spec.NICs {
		if err := nameNIC(n); err != nil {
			return fmt.Errorf("NIC %s: %w", n.Name, err)
		}
	}
	if err := enterRoot("/new"); err != nil {
		return err
	}
	report("systemd starts")
	argv := []string{systemdProgram, "--unit=multi-user.target", "--show-status=1"}
	return fmt.Errorf("run %s: %w", systemdProgram, unix.Exec(systemdProgram, argv, []string{"PATH=" + usualPath}))
}

// mountHostRoot lays the disk over the host's root. first is true if the guest has
// not booted before.
func mountHostRoot(at string) (first bool, err error) {
	host := mount{"9p", "/low", "trans=virtio,version=9p2000.L,ro,cache=loose,msize=262144"}
	if err := host.from(hostTag, "/"); err != nil {
		return false, err
	}
	const disk = "/dev/vda"
	if first, err = blank(disk); err != nil {
		return false, fmt.Errorf("read the guest's disk: %w", err)
	}
	if first {
		if output, err := exec.Command("/sbin/"+mke2fs, "-q", "-t", "ext4", "-E", "nodiscard", disk).CombinedOutput(); err != nil {
			return false, fmt.Errorf("make a file system on the guest's disk: %w: %s", err, output)
		}
	}
	if err := (mount{"ext4", "/rw", ""}).from(disk, "/"); err != nil {
		return false, err
	}
	for _, dir := range []string{"/rw/upper", "/rw/work"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return false, err
		}
	}
	return first, mount{"overlay", at, "lowerdir=/low,upperdir=/rw/upper,workdir=/rw/work"}.do("/")
}

// blank reports whether a disk has no ext4 file system, by the magic of its
// superblock.
func blank(disk string) (bool, error) {
	f, err := os.Open(disk)
	if err != nil {
		return false, err
	}
	defer f.Close()
	magic := make([]byte, 2)
	if _, err := f.ReadAt(magic, 1024+56); err != nil {
		return false, err
	}
	return binary.LittleEndian.Uint16(magic) != 0xef53, nil
}

// ofTheHost are files by which the host's root would start what the host runs, wait
// for its disks, or be taken for a container by systemd, which then leaves out udev and
// the bpf file system.
var ofTheHost = []string{
	".dockerenv",
	"etc/systemd/system/*.wants", "etc/systemd/system/*.requires", "etc/rc?.d",
	"etc/fstab", "etc/crypttab", "usr/sbin/policy-rc.d",
}

// freshMachine takes from the overlay what makes the host's root this host, once.
func freshMachine(root string, s Spec) error {
	for _, pattern := range ofTheHost {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return err
		}
		for _, path := range found {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
		}
	}
	return writeFiles(root, map[string][]byte{
		"/etc/hostname":   []byte(s.Name + "\n"),
		"/etc/machine-id": []byte(machineID(s.Name) + "\n"),
		"/etc/fstab":      nil,
	})
}

// machineID is the same in every run, and another than the host's. With none at all
// systemd would enable every unit by its presets.
func machineID(name string) string {
	mac := derivedMAC(name, "machine")
	return strings.Repeat("0", 20) + fmt.Sprintf("%x", []byte(mac))
}

func writeFiles(root string, files map[string][]byte) error {
	for path, content := range files {
		at := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return err
		}
		if err := os.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err // a link of the host's would be followed
		}
		mode := fs.FileMode(0o644)
		if strings.HasPrefix(string(content), "#!") {
			mode = 0o755
		}
		if err := os.WriteFile(at, content, mode); err != nil {
			return err
		}
	}
	return nil
}

// handOver places this program, the plan and the host's shared directory where PID
// 1 and the agent find them.
func handOver(root string, plan guestPlan) error {
	plan.Modules = nil // they are loaded
	content, err := plan.text()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(root, "run/lab"), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, planOnHostRoot), content, 0o600); err != nil {
		return err
	}
	if err := moveProgram("/init", filepath.Join(root, SelfOnHostRoot)); err != nil {
		return err
	}
	if plan.Spec.Share == "" {
		return nil
	}
	at := filepath.Join(root, ShareOnHostRoot)
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(filepath.Join("/low", plan.Spec.Share), at, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("show the host's %s: %w", plan.Spec.Share, err)
	}
	return nil
}

// moveProgram copies a program out of the initramfs, whose memory it then frees.
func moveProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return errors.Join(err, out.Close())
	}
	return errors.Join(out.Close(), os.Remove(from))
}

// hostRootOptions are QEMU's for the host's files and for the disk over them.
func hostRootOptions(scratch string) []string {
	return []string{
		"-fsdev", "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap",
		"-device", "virtio-9p-pci,fsdev=host,mount_tag=" + hostTag,
		"-drive", "if=virtio,format=raw,cache=unsafe,file=" + filepath.Join(scratch, diskFile),
	}
}

// possibleHostRoot returns what this machine lacks for such a root.
func possibleHostRoot(init Init) error {
	_, err := program(mke2fs, mke2fsPackage)
	if init == Systemd {
		if _, missing := os.Stat(systemdProgram); missing != nil {
			err = errors.Join(err, fmt.Errorf("%s is not there: install the Debian package %s", systemdProgram, systemdPackage))
		}
	}
	return err
}

// checkRoot is the part of checked about a guest's root.
func (s Spec) checkRoot(bad func(format string, args ...any)) {
	if !slices.Contains([]Root{"", HostRoot}, s.Root) {
		bad("root %q: host is known", s.Root)
	}
	if s.Root == HostRoot && s.Kind == UML {
		bad("root %q: UML always has the host's", s.Root)
	}
	if !slices.Contains([]Init{"", Systemd}, s.Init) {
		bad("init %q: systemd is known", s.Init)
	}
	if s.Init != "" && s.Root != HostRoot {
		bad("init %q: it needs the host's root", s.Init)
	}
	if s.Init == Systemd && (len(s.Routes) > 0 || len(s.Sysctls) > 0 || s.Forward || slices.ContainsFunc(s.NICs, func(n NIC) bool { return len(n.Addresses) > 0 })) {
		bad("a guest with systemd configures its network itself: by Files")
	}
}
