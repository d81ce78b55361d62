package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"weft/internal/lab/netspace"
	"weft/internal/lab/probe"
)

// process is a long-lived program of a path.
type process struct {
	name     string
	pid      int
	log      string        // file
	done     chan struct{} // closed when it has ended
	patience time.Duration // for it to be ready
}

// Program is one that a bench needs, and the Debian package that has it.
type Program struct{ Name, Package string }

// Need returns an error that names missing programs and their packages.
func Need(programs ...Program) error {
	var errs []error
	for _, p := range programs {
		if _, err := exec.LookPath(p.Name); err != nil {
			errs = append(errs, fmt.Errorf("the program %s is not there: apt-get install %s", p.Name, p.Package))
		}
	}
	return errors.Join(errs...)
}

// loadPolicy gives the router a ruleset (nft(8)).
func (p *Path) loadPolicy(ruleset string) error {
	if ruleset == "" {
		return nil
	}
	c := exec.Command("nft", "-f", "-")
	c.Stdin = strings.NewReader(ruleset)
	_, err := p.run(p.Router, c)
	return err
}

// run runs a program in one of the path's namespaces to its end and gives what
// it wrote.
func (p *Path) run(in *netspace.Space, c *exec.Cmd) ([]byte, error) {
	var out, complaint bytes.Buffer
	c.Stdout, c.Stderr = &out, &complaint
	err := in.Start(c)
	if err == nil {
		err = c.Wait()
	}
	if err != nil {
		return out.Bytes(), fmt.Errorf("run %s in %s: %w: %s", strings.Join(c.Args, " "), in.Name, err, strings.TrimSpace(complaint.String()))
	}
	return out.Bytes(), nil
}

// launch starts a program that runs until the path is closed.
func (p *Path) launch(in *netspace.Space, name string, env []string, argv ...string) (*process, error) {
	pr := &process{name: name, log: filepath.Join(p.dir, name+".log"), done: make(chan struct{}), patience: max(p.patience, settle)}
	log, err := os.Create(pr.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	c := exec.Command(argv[0], argv[1:]...)
	c.Stdout, c.Stderr, c.Dir = log, log, p.dir
	c.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "NOTIFY_SOCKET=") || strings.HasPrefix(v, "WATCHDOG_")
	}), env...)
	if err := in.Start(c); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	pr.pid = c.Process.Pid
	go func() {
		_ = c.Wait()
		close(pr.done)
	}()
	return pr, nil
}

// failure is the error with the last output of a process.
func (pr *process) failure(what string) error {
	text, _ := os.ReadFile(pr.log)
	return fmt.Errorf("%s %s: %s", pr.name, what, strings.TrimSpace(string(text)))
}

// until calls ready repeatedly until it returns true, the process has ended, or the
// path's time to settle is over.
func (pr *process) until(ctx context.Context, ready func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, pr.patience)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		ok, err := ready()
		if ok || err != nil {
			return err
		}
		select {
		case <-pr.done:
			return pr.failure("ended too early")
		case <-ctx.Done():
			return pr.failure("is not ready")
		case <-again.C:
		}
	}
}

// RunWeft starts weft in the router with a configuration, and waits until it
// reports READY (sd_notify(3)).
func (p *Path) RunWeft(ctx context.Context, weft, config string) error {
	return p.RunWeftIn(ctx, p.Router, weft, config)
}

// RunWeftIn is RunWeft for any of the path's namespaces.
func (p *Path) RunWeftIn(ctx context.Context, in *netspace.Space, weft, config string) error {
	file := filepath.Join(p.dir, in.Name+".toml")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		return err
	}
	path := filepath.Join(p.dir, in.Name+".notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("listen for readiness: %w", err)
	}
	defer socket.Close()
	pr, err := p.launch(in, "weft-"+in.Name, []string{"NOTIFY_SOCKET=" + path}, weft, "run", file)
	if err != nil {
		return err
	}
	p.weft = pr.pid
	buffer := make([]byte, 8192)
	return pr.until(ctx, func() (bool, error) {
		_ = socket.SetReadDeadline(time.Now().Add(time.Millisecond))
		n, err := socket.Read(buffer)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return false, nil
		}
		return slices.Contains(strings.Split(string(buffer[:n]), "\n"), "READY=1"), err
	})
}

// Ping waits until an echo request from one namespace to an address is
// answered: routes are up, neighbours are known.
func (p *Path) Ping(ctx context.Context, from *netspace.Space, to netip.Addr) error {
	ctx, cancel := context.WithTimeout(ctx, settle)
	defer cancel()
	for {
		var echo probe.Echo
		err := from.Do(func() (err error) {
			echo, err = probe.Ping(ctx, to, probe.PingOptions{Count: 1, Size: 56, Timeout: 200 * time.Millisecond}, [32]byte{})
			return err
		})
		if err == nil && echo.Received > 0 {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("ping %s from %s: no answer (%v, %s)", to, from.Name, err, echo.Problem)
		}
	}
}
