package guest

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// run runs one command in the guest, and reports how it ended. Its outputs end when
// it does, even if it left processes in the background.
func (a *agent) run(ctx context.Context, id uint64, argv []string, input <-chan []byte) {
	defer a.forget(id)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	finish, err := a.start(ctx, id, cmd, input)
	if err != nil {
		a.say(message{ID: id, Error: err.Error()})
		return
	}
	cmd.Wait()
	finish()
	code := exitCode(cmd.ProcessState)
	a.say(message{ID: id, Exit: &code})
}

// start starts a command. finish is called after its end: it returns when all output
// of the command is sent.
func (a *agent) start(ctx context.Context, id uint64, cmd *exec.Cmd, input <-chan []byte) (finish func(), err error) {
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, outR.Close(), outW.Close())
	}
	cmd.Stdout, cmd.Stderr = outW, errW
	err = cmd.Start()
	outW.Close()
	errW.Close()
	if err != nil {
		return nil, errors.Join(err, outR.Close(), errR.Close())
	}
	go a.pipeIn(ctx, id, input, stdin)
	sent := make(chan struct{}, 2)
	go func() {
		a.pipeOut(outR, func(b []byte) message { return message{ID: id, Out: b} })
		sent <- struct{}{}
	}()
	go func() {
		a.pipeOut(errR, func(b []byte) message { return message{ID: id, Err: b} })
		sent <- struct{}{}
	}()
	return func() {
		for _, r := range []*os.File{outR, errR} {
			r.SetReadDeadline(time.Unix(1, 0)) // long past: stop waiting for more
		}
		<-sent
		<-sent
	}, nil
}

// pipeIn passes queued input on to a command until it, or the input, ends.
func (a *agent) pipeIn(ctx context.Context, id uint64, input <-chan []byte, to io.WriteCloser) {
	defer to.Close()
	for {
		select {
		case fragment, more := <-input:
			if !more {
				return
			}
			to.Write(fragment) // whether it is read is the command's affair
			a.say(message{ID: id, Took: true})
		case <-ctx.Done():
			return
		}
	}
}

// pipeOut sends the output of a pipe until its end or its read deadline, and then
// what is still in it. Pieces are short, so that commands share the line fairly.
func (a *agent) pipeOut(r *os.File, wrap func([]byte) message) {
	defer r.Close()
	buf := make([]byte, 2048)
	for {
		n, err := r.Read(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		if err != nil || a.say(wrap(buf[:n])) != nil {
			return
		}
	}
	r.SetReadDeadline(time.Time{})
	raw, err := r.SyscallConn()
	if err != nil {
		return
	}
	for {
		var n int
		raw.Read(func(fd uintptr) bool {
			n, err = syscall.Read(int(fd), buf)
			return true // do not wait
		})
		if err != nil || n <= 0 || a.say(wrap(buf[:n])) != nil {
			return
		}
	}
}

// exitCode is as in a shell: 128+n for signal n.
func exitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}
