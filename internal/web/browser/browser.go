// Package browser finds and starts a headless Chromium, for tests, measurements
// and pictures. The router has no use for it.
package browser

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"
)

// ErrMissing says that there is no browser here.
var ErrMissing = errors.New("chromium is not installed")

// Find returns the path of a Chromium.
func Find() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", ErrMissing
}

// Flags are those that it needs besides --headless: it reaches nothing but this
// machine, and writes nothing but its profile.
func Flags() map[string]string {
	flags := map[string]string{
		"disable-gpu": "", "disable-dev-shm-usage": "", "no-proxy-server": "", "no-first-run": "",
		"disable-background-networking": "", "disable-component-update": "", "disable-sync": "", "mute-audio": "",
		"host-resolver-rules": "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
	}
	if os.Geteuid() == 0 {
		flags["no-sandbox"] = "" // root cannot have one
	}
	return flags
}

// Show opens a page of so many pixels until ctx ends; it is an error if the
// browser ends before. Its profile is kept in dir.
func Show(ctx context.Context, dir, url string, width, height int) error {
	path, err := Find()
	if err != nil {
		return err
	}
	args := []string{"--headless", "--user-data-dir=" + dir, fmt.Sprintf("--window-size=%d,%d", width, height)}
	flags := Flags()
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		flag := "--" + name
		if v := flags[name]; v != "" {
			flag += "=" + v
		}
		args = append(args, flag)
	}
	c := exec.CommandContext(ctx, path, append(args, url)...)
	// its helpers are to end with it
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = 5 * time.Second
	if err := c.Run(); ctx.Err() == nil {
		return fmt.Errorf("%s ended by itself: %w", path, err)
	}
	return nil
}
