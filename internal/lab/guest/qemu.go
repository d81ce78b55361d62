package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const qemuBinary = "qemu-system-x86_64"

// controlTTY is the control line in a QEMU guest.
const controlTTY = "/dev/ttyS1"

// kernelOptions make a panic end QEMU and the boot short: no self tests, no
// page table splitting, no defence against a guest's own users. Without KVM
// that is a second of three.
var kernelOptions = []string{
	"console=ttyS0", "quiet", "panic=-1",
	"mitigations=off", "no_timer_check", "cryptomgr.notests", "rodata=off",
}

// options returns the kernel's command line for one kind of processor. Under KVM,
// and where instructions are counted, the TSC is measured right. An emulated
// kernel on a busy host may measure it wrong by a factor of a hundred, so it takes
// the HPET from the start. Left to its watchdog it would change clocks later, and
// patch its code for that; two emulated processors do not always survive that.
func options(accelerator string, count bool) []string {
	tsc := "tsc=unstable"
	if count || accelerator == "kvm" {
		tsc = "tsc=reliable"
	}
	return append(slices.Clone(kernelOptions), tsc)
}

// planQEMU boots a Debian kernel on an initramfs made for this guest alone.
func planQEMU(ctx context.Context, s Spec) (launchPlan, guestPlan, error) {
	fail := func(err error) (launchPlan, guestPlan, error) { return launchPlan{}, guestPlan{}, err }
	qemu, err := program(qemuBinary, qemuPackage)
	if err != nil {
		return fail(err)
	}
	image, moduleDir, err := debianKernel("/", s.Kernel)
	if err != nil {
		return fail(err)
	}
	tree, err := readModuleTree(moduleDir)
	if err != nil {
		return fail(fmt.Errorf("read the kernel's modules: %w", err))
	}
	wanted := append([]string{"virtio_pci", "virtio_net"}, s.modules()...)
	if s.Root == HostRoot {
		wanted = slices.Concat(tree.present(hostRootExtras), hostRootModules, wanted)
	}
	modules, err := tree.order(wanted)
	if err != nil {
		return fail(err)
	}
	accel := make(chan string, 1)
	go func() { accel <- s.accelerator() }() // the probe may take its whole deadline
	kernel := make(chan error, 1)
	unpacked := filepath.Join(s.Dir, kernelFile)
	go func() { kernel <- unpackKernel(ctx, image, unpacked) }()
	guest := guestPlan{Spec: s, Modules: modules, Control: controlTTY, Console: "/dev/ttyS0"}
	initrd := filepath.Join(s.Dir, initrdFile)
	if err := writeInitrd(ctx, initrd, guest); err != nil {
		return fail(fmt.Errorf("make the initramfs: %w", err))
	}
	switch err := <-kernel; {
	case err == nil:
		image = unpacked
	case !errors.Is(err, errAsItIs):
		return fail(err)
	}
	accelerator := <-accel
	kernelArgs := slices.Concat(options(accelerator, s.Count), s.options, []string{"rdinit=/init", "--"}, s.Self[1:], []string{roleInit, specInInitrd})
	argv := []string{qemu,
		"-name", s.Name, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-machine", "pc,i8042=off", "-accel", accelerator, "-cpu", "max", "-m", strconv.Itoa(s.Memory), "-smp", strconv.Itoa(s.CPUs),
		"-chardev", fmt.Sprintf("socket,id=console,fd=%d", consoleFD), "-serial", "chardev:console",
		"-chardev", fmt.Sprintf("socket,id=control,fd=%d", controlFD), "-serial", "chardev:control",
		"-kernel", image, "-initrd", initrd, "-append", strings.Join(kernelArgs, " "),
	}
	if s.Count {
		argv = append(argv, "-icount", "shift=0,sleep=off")
	}
	for i, n := range s.NICs {
		argv = append(argv,
			"-netdev", fmt.Sprintf("%s,id=net%d", or(n.Backend, "tap,ifname="+n.Tap+",script=no,downscript=no,vhost=off"), i),
			"-device", fmt.Sprintf("virtio-net-pci,netdev=net%d,mac=%s,romfile=,host_mtu=%d", i, n.MAC, n.MTU))
	}
	launch := launchPlan{Argv: argv, Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}}
	if s.Root == HostRoot {
		launch.Argv = append(launch.Argv, hostRootOptions(filepath.Join(s.Dir, scratchDir))...)
		launch.Scratch, launch.Disk = diskSize+16, diskSize
	}
	return launch, guest, nil
}

func (s Spec) accelerator() string {
	switch {
	case s.Accel != "":
		return s.Accel
	case s.Count:
		return "tcg"
	}
	if kvmWorks() {
		return "kvm"
	}
	return "tcg"
}

// kvmWorks caches the result: it is a property of the machine, and the probe may
// take until its deadline.
var kvmWorks = sync.OnceValue(func() bool {
	if _, err := os.Stat("/dev/kvm"); err != nil {
		return false
	}
	return probeAccelerator("kvm", 700*time.Millisecond) == nil
})

// probeProgram is a boot sector that ends QEMU by its isa-debug-exit device:
// mov al, 0x10; out 0xf4, al; hlt; jmp to the hlt.
var probeProgram = []byte{0xb0, 0x10, 0xe6, 0xf4, 0xf4, 0xeb, 0xfd}

// probeExit is how QEMU ends when the guest wrote 0x10 there: value<<1 | 1.
const probeExit = 0x10<<1 | 1

// probeAccelerator runs a boot sector: only a processor that executed it can return
// the right value. /dev/kvm may exist and hang for ever, hence a child process and a
// deadline, after which the child is abandoned.
func probeAccelerator(accel string, patience time.Duration) error {
	dir, err := os.MkdirTemp("", "weft-probe-")
	if err != nil {
		return fmt.Errorf("probe accelerator %s: %w", accel, err)
	}
	defer os.RemoveAll(dir)
	sector := make([]byte, 512)
	copy(sector, probeProgram)
	sector[510], sector[511] = 0x55, 0xaa
	disk := filepath.Join(dir, "sector")
	if err := os.WriteFile(disk, sector, 0o600); err != nil {
		return fmt.Errorf("probe accelerator %s: %w", accel, err)
	}
	cmd := exec.Command(qemuBinary, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-machine", "pc,i8042=off", "-accel", accel, "-m", "16",
		"-device", "isa-debug-exit,iobase=0xf4,iosize=1", "-drive", "file="+disk+",format=raw,if=ide")
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("probe accelerator %s: %w", accel, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() == probeExit {
			return nil
		}
		return fmt.Errorf("probe accelerator %s: a boot sector did not run: %v", accel, err)
	case <-time.After(patience):
		cmd.Process.Kill()
		return fmt.Errorf("probe accelerator %s: no answer in %v", accel, patience)
	}
}
