package guest

import (
	"debug/elf"
	_ "embed"
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// User-Mode Linux stores the extended FPU state of its processes in a buffer of
// fixed size. On a CPU with AMX the state is larger than that, and without the
// wrapper every guest panics at its first process. xstate/ptrace.c explains and
// solves this.

//go:generate clang-19 -O2 -Wall -Wextra -Werror -shared -fPIC -nostdlib -fno-builtin -fuse-ld=lld-19 -Wl,--build-id=none -Wl,-s -o xstate/ptrace.so xstate/ptrace.c
//go:embed xstate/ptrace.so
var ptraceWrapper []byte

const (
	wrapperFile = "ptrace.so"

	umlBuffer      = 2696      // bytes, of UML 6.1 and later until it asks the CPU
	largestWrapped = 64 * 1024 // LARGEST_AREA of xstate/ptrace.c
)

// wrapping selects whether UML gets the wrapper: if the CPU needs it, or as a test
// decides.
type wrapping int

const (
	wrapWhereNeeded wrapping = iota
	wrapAlways
	wrapNever
)

// umlNeedsWrapper reports whether UML runs on this CPU only with the wrapper, or the
// error why it does not run at all.
func umlNeedsWrapper(linux string) (bool, error) {
	area, err := xsaveArea(linux)
	if err != nil {
		return false, fmt.Errorf("User-Mode Linux does not run here, because %w", err)
	}
	dynamic, err := dynamicallyLinked(linux)
	if err != nil {
		return false, err
	}
	return wrapperFor(area, dynamic, linux)
}

// wrapperFor decides by the size of the CPU's XSAVE area in bytes, 0 where the
// CPU has none.
func wrapperFor(area int, dynamic bool, linux string) (bool, error) {
	const no = "User-Mode Linux does not run on this CPU, because its FPU state (XSAVE area) of %d bytes is larger than "
	switch {
	case area <= umlBuffer:
		return false, nil
	case area > largestWrapped:
		return false, fmt.Errorf(no+"the %d bytes that weft's wrapper of ptrace can fill", area, largestWrapped)
	case !dynamic:
		return false, fmt.Errorf(no+"UML's buffer of %d bytes, and %s is linked statically, so that weft cannot wrap its calls of ptrace: install the Debian package %s",
			area, umlBuffer, linux, umlPackage)
	}
	return true, nil
}

// xsaveArea returns the size of the state that ptrace reads and writes of a
// process, 0 if this CPU has no XSAVE. The program is started under ptrace, as
// UML starts its own processes, and killed before its first instruction.
func xsaveArea(program string) (int, error) {
	type answer struct {
		size int
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		// ptrace obeys only the thread that began it
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		size, err := tracedXsaveArea(program)
		answers <- answer{size, err}
	}()
	a := <-answers
	return a.size, a.err
}

func tracedXsaveArea(program string) (int, error) {
	cmd := exec.Command(program, "--version")
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("ptrace cannot be used: %w", err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	var status unix.WaitStatus
	if _, err := unix.Wait4(cmd.Process.Pid, &status, 0, nil); err != nil || !status.Stopped() {
		return 0, fmt.Errorf("a process under ptrace does not stop: status %#x, %v", int(status), err)
	}
	const xstate = 0x202 // NT_X86_XSTATE
	buffer := make([]byte, 2*largestWrapped)
	vector := unix.Iovec{Base: &buffer[0]}
	vector.SetLen(len(buffer))
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GETREGSET, uintptr(cmd.Process.Pid), xstate, uintptr(unsafe.Pointer(&vector)), 0, 0)
	switch errno {
	case 0:
		return int(vector.Len), nil
	case unix.ENODEV, unix.EINVAL: // UML has another way for CPUs without XSAVE
		return 0, nil
	}
	return 0, fmt.Errorf("ptrace cannot read the FPU state of a process: %w", errno)
}

func dynamicallyLinked(program string) (bool, error) {
	f, err := elf.Open(program)
	if err != nil {
		return false, err
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return true, nil
		}
	}
	return false, nil
}
