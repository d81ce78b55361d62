package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// initGuest is the guest's PID 1: it makes a writable root filesystem, loads the
// modules, starts the agent and reaps processes. When the agent ends, so does the
// guest.
func initGuest(planPath string) error {
	plan, err := readGuestPlan(planPath)
	if err == nil {
		err = prepareRoot(plan)
	}
	if err != nil {
		report(plan, err)
		return errors.Join(err, powerOff())
	}
	agent, err := startAgent(plan)
	if err != nil {
		report(plan, err)
		return errors.Join(err, powerOff())
	}
	for {
		pid, err := unix.Wait4(-1, nil, 0, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil || pid == agent.Pid {
			return powerOff()
		}
	}
}

// startAgent starts this binary again, which reads the mounts made since, with the
// plan in memory: its file may be covered by now.
func startAgent(plan guestPlan) (*os.Process, error) {
	content, err := plan.text()
	if err != nil {
		return nil, fmt.Errorf("start the agent: %w", err)
	}
	fd, err := unix.MemfdCreate("plan", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("start the agent: %w", err)
	}
	memory := os.NewFile(uintptr(fd), "plan")
	defer memory.Close()
	if _, err := memory.WriteAt(content, 0); err != nil {
		return nil, fmt.Errorf("start the agent: %w", err)
	}
	argv := slices.Concat(plan.Spec.Self, []string{roleAgent, "/proc/self/fd/3"})
	agent, err := os.StartProcess("/proc/self/exe", argv, &os.ProcAttr{
		Dir: "/", Files: []*os.File{os.Stdin, os.Stdout, os.Stderr, memory}, Env: guestEnvironment(),
	})
	if err != nil {
		return nil, fmt.Errorf("start the agent: %w", err)
	}
	return agent, nil
}

const usualPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

func guestEnvironment() []string {
	return []string{
		"PATH=" + usualPath,
		"HOME=/root", "TERM=linux", "LANG=C.UTF-8",
	}
}

func readGuestPlan(path string) (guestPlan, error) {
	var plan guestPlan
	content, err := os.ReadFile(path)
	if err != nil {
		return plan, err
	}
	if err := json.Unmarshal(content, &plan); err != nil {
		return plan, fmt.Errorf("read %s: %w", path, err)
	}
	return plan, nil
}

// report sends the reason why the guest cannot be set up over the control line.
func report(plan guestPlan, reason error) {
	if plan.Control == "" {
		return // on the console alone
	}
	tell(plan, message{Error: reason.Error()})
}

// tell sends a message before there is an agent.
func tell(plan guestPlan, m message) {
	line, err := openLine(plan.Control)
	if err != nil {
		return
	}
	defer line.Close()
	json.NewEncoder(line).Encode(m)
	drain(line)
}

// text is the plan as the agent reads it.
func (p guestPlan) text() ([]byte, error) { return json.Marshal(p) }

func powerOff() error {
	unix.Sync()
	return unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

type mount struct{ kind, where, options string }

func (m mount) do(root string) error {
	return m.from("guest", root)
}

// from mounts a source, for file systems that have one.
func (m mount) from(source, root string) error {
	where := filepath.Join(root, m.where)
	if err := os.MkdirAll(where, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(source, where, m.kind, 0, m.options); err != nil && err != unix.EBUSY {
		return fmt.Errorf("mount %s on %s: %w", m.kind, m.where, err)
	}
	return nil
}

// systemMounts are the mounts that programs expect of any root filesystem. EBUSY
// means that the kernel has mounted devtmpfs by itself.
var systemMounts = [...]mount{
	{"proc", "/proc", ""}, {"sysfs", "/sys", ""}, {"devtmpfs", "/dev", ""}, {"devpts", "/dev/pts", ""},
	{"tmpfs", "/dev/shm", ""}, {"tmpfs", "/run", "mode=0755"},
}

func prepareRoot(plan guestPlan) error {
	if plan.Spec.Root == HostRoot {
		return prepareHostRoot(plan)
	}
	if err := loadModules(plan); err != nil {
		return err
	}
	root := "/"
	if plan.Overlay {
		var err error
		if root, err = layOver(); err != nil {
			return err
		}
	}
	for _, m := range systemMounts {
		if err := m.do(root); err != nil {
			return err
		}
	}
	if !plan.Overlay {
		return nil
	}
	if err := enterRoot(root); err != nil {
		return err
	}
	return offerModules(plan.Modules)
}

// layOver puts a tmpfs over the read-only root. It mounts on /tmp, which every host
// has; that is covered, not written to.
func layOver() (root string, err error) {
	if err := (mount{"tmpfs", "/tmp", "mode=0700"}).do("/"); err != nil {
		return "", err
	}
	for _, dir := range []string{"/tmp/upper", "/tmp/work"} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return "", err
		}
	}
	over := mount{"overlay", "/tmp/root", "lowerdir=/,upperdir=/tmp/upper,workdir=/tmp/work"}
	return over.where, over.do("/")
}

// enterRoot makes a mounted tree the root, as switch_root(8) does.
func enterRoot(root string) error {
	if err := os.Chdir(root); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move %s to /: %w", root, err)
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("enter %s: %w", root, err)
	}
	return os.Chdir("/")
}

// offerModules places the modules where modprobe looks, so that those which the
// kernel requests (a link kind, a qdisc) are loaded too.
func offerModules(loaded []string) error {
	if len(loaded) == 0 {
		return nil
	}
	dir, _, _ := strings.Cut(loaded[0], "/kernel/")
	at := filepath.Join("/lib/modules", filepath.Base(dir))
	if _, err := os.Stat(at); err == nil {
		return nil
	}
	return os.Symlink(dir, at)
}

func loadModules(plan guestPlan) error {
	for _, path := range plan.Modules {
		if err := loadModule(path); err != nil {
			return err
		}
	}
	return nil
}

func loadModule(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("load module: %w", err)
	}
	defer f.Close()
	flags := 0
	if !strings.HasSuffix(path, ".ko") {
		flags = unix.MODULE_INIT_COMPRESSED_FILE // .ko.xz, .ko.zst: since Linux 5.17
	}
	if err := unix.FinitModule(int(f.Fd()), "", flags); err != nil && err != unix.EEXIST {
		return fmt.Errorf("load module %s: %w", moduleName(path), err)
	}
	return nil
}
