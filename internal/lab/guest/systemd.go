package guest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// agentUnit starts the agent once the basic units are there, and outside of the
// targets, so that no other unit waits for it. Commands that it has left in the
// background outlive it, as in other guests.
const agentUnit = `[Unit]
Description=agent of the lab
DefaultDependencies=no
After=basic.target
Conflicts=shutdown.target
Before=shutdown.target

[Service]
Type=exec
ExecStart=%s
Environment=%s
KillMode=process
OOMScoreAdjust=-900
`

// shutdownHook runs last before the machine restarts (systemd-shutdown(8)): the
// supervisor starts its machine again, and takes any other end for the guest's.
const shutdownHook = `#!/bin/sh
[ "$1" != reboot ] || echo '{"reboot":true}' > %s
`

// scriptDone is there once the script of a guest with systemd has run.
const scriptDone = "/var/lib/lab/script-done"

// writeUnits places the lab's units where nothing of them stays: in /run.
func writeUnits(root string, s Spec) error {
	argv := append([]string{SelfOnHostRoot}, s.Self[1:]...)
	argv = append(argv, roleAgent, planOnHostRoot)
	quoted := make([]string, len(guestEnvironment()))
	for i, v := range guestEnvironment() {
		quoted[i] = `"` + v + `"`
	}
	units := filepath.Join(root, "run/systemd/system")
	err := writeFiles(units, map[string][]byte{
		"lab-agent.service": fmt.Appendf(nil, agentUnit, strings.Join(argv, " "), strings.Join(quoted, " ")),
	})
	if err != nil {
		return err
	}
	wants := filepath.Join(units, "multi-user.target.wants")
	if err := os.MkdirAll(wants, 0o755); err != nil {
		return err
	}
	if err := os.Symlink("../lab-agent.service", filepath.Join(wants, "lab-agent.service")); err != nil {
		return err
	}
	// the console is the lab's, and has a shell without a login
	if err := os.Symlink("/dev/null", filepath.Join(units, "serial-getty@ttyS0.service")); err != nil {
		return err
	}
	return writeFiles(root, map[string][]byte{
		"/usr/lib/systemd/system-shutdown/lab": fmt.Appendf(nil, shutdownHook, controlTTY),
	})
}

// awaitSystemd returns when systemd has booted, even if some units have failed: what
// matters in a lab its checks say.
func awaitSystemd() error {
	cmd := exec.Command("systemctl", "is-system-running", "--wait")
	output, err := cmd.Output()
	if state := strings.TrimSpace(string(output)); state != "running" && state != "degraded" {
		return fmt.Errorf("systemd has not booted, it is %q: %v", state, err)
	}
	return nil
}
