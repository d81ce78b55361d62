package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Start boots a guest and returns when it is set up and ready for commands. The
// context applies to the start only: afterwards the guest runs until Stop, even if
// this process ends. An error has the console's last lines; nothing is left then.
func Start(ctx context.Context, spec Spec) (*Machine, error) {
	if spec.Self == nil {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("guest %s: find this program: %w", spec.Name, err)
		}
		spec.Self = []string{self, "guest"}
	}
	spec, err := spec.checked()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, spec.Patience)
	defer cancel()
	if err := os.Mkdir(spec.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("guest %s: %w", spec.Name, err)
	}
	m, err := boot(ctx, spec)
	if err != nil {
		err = fmt.Errorf("guest %s: %w", spec.Name, err)
		return nil, errors.Join(err, os.RemoveAll(spec.Dir))
	}
	return m, nil
}

func boot(ctx context.Context, spec Spec) (*Machine, error) {
	if err := lay(ctx, spec); err != nil {
		return nil, err
	}
	proc, err := launch(spec)
	if err != nil {
		return nil, err
	}
	m, err := open(ctx, spec.Dir, spec.Progress)
	if err == nil && spec.Impair != nil {
		err = inNetns(spec.Netns, func() error { return wholeFramesOnly(spec.NICs) })
	}
	if err == nil {
		return m, nil
	}
	// The supervisor is not reaped yet, so its PID cannot be another's.
	proc.Kill()
	err = fmt.Errorf("%w; its console said last:\n%s", err, lastLines(filepath.Join(spec.Dir, consoleLog), 60))
	if m != nil {
		m.conn.Close()
	}
	return nil, errors.Join(err, waitForEnd(context.WithoutCancel(ctx), proc.Pid))
}

// lay writes the files that supervisor and agent read.
func lay(ctx context.Context, spec Spec) error {
	plan := planUML
	if spec.Kind == QEMU {
		plan = planQEMU
	}
	launch, guest, err := plan(ctx, spec)
	if err != nil {
		return err
	}
	if err := writeJSON(filepath.Join(spec.Dir, launchFile), launch); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(spec.Dir, scratchDir), 0o700); err != nil {
		return err
	}
	if spec.Kind == UML {
		if err := writeUMLInit(spec); err != nil {
			return err
		}
	}
	return writeJSON(filepath.Join(spec.Dir, specFile), guest)
}

func writeJSON(path string, v any) error {
	content, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o600)
}

// launch starts the supervisor in the guest's network namespace. Sockets and
// log are opened here, before the supervisor makes the files read-only.
func launch(spec Spec) (*os.Process, error) {
	log, err := os.OpenFile(filepath.Join(spec.Dir, consoleLog), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	var listeners []*os.File
	for _, name := range []string{consoleSocket, controlSocket} {
		l, err := listen(filepath.Join(spec.Dir, name))
		if err != nil {
			return nil, err
		}
		defer l.Close()
		listeners = append(listeners, l)
	}
	cmd := exec.Command(spec.Self[0], append(spec.Self[1:len(spec.Self):len(spec.Self)], roleSupervise, spec.Dir)...)
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = listeners
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	if err := inNetns(spec.Netns, cmd.Start); err != nil {
		return nil, fmt.Errorf("start the supervisor: %w", err)
	}
	pid := cmd.Process.Pid
	if err := os.WriteFile(filepath.Join(spec.Dir, pidFile), []byte(strconv.Itoa(pid)), 0o600); err != nil {
		cmd.Process.Kill()
		return nil, err
	}
	return cmd.Process, nil
}

func listen(path string) (*os.File, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	defer l.Close()
	return l.File()
}

// inNetns runs f on a thread that is in the network namespace at path; what f
// starts is born there. The thread is not used again if it cannot return.
func inNetns(path string, f func() error) error {
	if path == "" {
		return f()
	}
	there, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open network namespace: %w", err)
	}
	defer there.Close()
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
			result <- fmt.Errorf("enter network namespace %s: %w", path, err)
			return
		}
		result <- f()
	}()
	return <-result
}
