package guest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// launchPlan is the supervisor's input: the kernel's command and the memory-backed
// scratch directory it needs.
type launchPlan struct {
	Argv    []string
	Env     []string
	Scratch int  // MiB of tmpfs on Dir/scratch, 0 = none
	Disk    int  // MiB of a disk there, 0 = none
	Wrapped bool // the kernel's calls of ptrace go through ptraceWrapper
}

// guestPlan is the agent's input.
type guestPlan struct {
	Spec    Spec
	Modules []string // absolute paths in the guest, in loading order
	Overlay bool     // the root is the host's and read-only: lay a tmpfs over it
	Control string   // the tty of the control line
	Console string   // the tty of the console
}

// File descriptors that the supervisor hands to the guest's kernel.
const (
	consoleFD = 3
	controlFD = 4
)

// umlInit is what the kernel starts, and writeUMLInit makes it. Before UML has a
// /proc of its own hostfs shows the host's, with empty files, which packages that
// read theirs as the program starts do not expect.
const umlInit = "init.sh"

func writeUMLInit(s Spec) error {
	script := "#!/bin/sh\nmount -t proc proc /proc && exec '" + strings.ReplaceAll(s.Self[0], "'", `'\''`) + "' \"$@\"\n"
	return os.WriteFile(filepath.Join(s.Dir, umlInit), []byte(script), 0o755)
}

// planUML follows Documentation/virt/uml/user_mode_linux_howto_v2.rst: hostfs
// as root, vector NICs over taps. The memory file must lie on a tmpfs that
// allows execution, hence TMPDIR.
func planUML(ctx context.Context, s Spec) (launchPlan, guestPlan, error) {
	linux, err := program("linux.uml", umlPackage)
	if err != nil {
		return launchPlan{}, guestPlan{}, err
	}
	wrapped := s.wrap == wrapAlways
	if s.wrap == wrapWhereNeeded {
		if wrapped, err = umlNeedsWrapper(linux); err != nil {
			return launchPlan{}, guestPlan{}, err
		}
	}
	version, err := exec.CommandContext(ctx, linux, "--version").Output()
	if err != nil {
		return launchPlan{}, guestPlan{}, fmt.Errorf("ask %s for its version: %w", linux, err)
	}
	tree, err := readModuleTree(filepath.Join("/usr/lib/uml/modules", strings.TrimSpace(string(version))))
	if err != nil {
		return launchPlan{}, guestPlan{}, fmt.Errorf("read UML's modules: %w", err)
	}
	modules, err := tree.order(append([]string{"overlay", "ipv6"}, s.modules()...))
	if err != nil {
		return launchPlan{}, guestPlan{}, err
	}
	scratch := filepath.Join(s.Dir, scratchDir)
	argv := []string{linux,
		"mem=" + strconv.Itoa(s.Memory) + "M", "umid=" + s.Name, "uml_dir=" + scratch,
		// root and console are UML's defaults: it would append them, after the "--".
		"root=98:0", "console=tty0", "rootfstype=hostfs", "rootflags=/", "ro", "init=" + filepath.Join(s.Dir, umlInit), "quiet",
		fmt.Sprintf("con0=fd:%d", consoleFD), "con=null", fmt.Sprintf("ssl0=fd:%d", controlFD), "ssl=null",
	}
	for i, n := range s.NICs {
		backend := or(n.Backend, "transport=tap,ifname="+n.Tap)
		argv = append(argv, fmt.Sprintf("vec%d:%s,mac=%s,mtu=%d", i, backend, n.MAC, n.MTU))
	}
	argv = append(argv, "--")
	argv = append(argv, s.Self[1:]...)
	argv = append(argv, roleInit, filepath.Join(s.Dir, specFile))
	return launchPlan{
			Argv:    argv,
			Env:     []string{"TMPDIR=" + scratch, "HOME=" + scratch, "PATH=/usr/sbin:/usr/bin:/sbin:/bin"},
			Scratch: s.Memory + 64,
			Wrapped: wrapped,
		},
		guestPlan{Spec: s, Modules: modules, Overlay: true, Control: "/dev/ttyS0", Console: "/dev/tty0"}, nil
}

// modules are those the spec asks for, by name or by what else it wants.
func (s Spec) modules() []string {
	if s.Impair == nil {
		return s.Modules
	}
	return append([]string{"sch_netem", "sch_ingress", "cls_matchall", "act_mirred"}, s.Modules...)
}
