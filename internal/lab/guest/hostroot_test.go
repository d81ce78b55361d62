package guest

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A guest with the host's root has its programs and files, and writes beside them.
func TestAGuestWithTheHostsRootKeepsWhatItWritesUntilItIsGone(t *testing.T) {
	b := newBench(t)
	b.tap("tap0", "10.9.0.1/24", "fd09::1/64")
	share := t.TempDir()
	write(t, filepath.Join(share, "handed over"), "by the host\n")
	spec := Spec{
		Kind: QEMU, Name: "g1", Dir: shortDir(t), Root: HostRoot, Share: share, NICs: []NIC{lanNIC()},
		Files: map[string][]byte{"/etc/passwd": []byte("root:x:0:0:of the guest:/root:/bin/sh\n"), "/usr/local/bin/answer": []byte("#!/bin/sh\necho 42\n")},
	}
	var stages []string
	spec.Progress = func(s string) { stages = append(stages, s) }
	m := b.start(spec)
	if len(stages) == 0 || !strings.Contains(stages[0], "the host's root") {
		t.Errorf("it reported %q while it booted", stages)
	}
	for what, want := range map[string]string{
		"cat '" + ShareOnHostRoot + "/handed over'": "by the host\n",
		"cat /etc/passwd":                        "root:x:0:0:of the guest:/root:/bin/sh\n",
		"answer":                                 "42\n",
		"hostname":                               "g1\n",
		"cat /etc/hostname":                      "g1\n",
		"test -e /usr/sbin/policy-rc.d; echo $?": "1\n",
		"dpkg-query -W -f '${Package}\\n' e2fsprogs": "e2fsprogs\n",
	} {
		if got := mustExec(t, m, "sh", "-c", what); got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	b.run("ping", "-c", "2", "-i", "0.01", "-W", "2", "10.9.0.2")
	hosts, err := os.ReadFile("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	mustExec(t, m, "sh", "-c", "echo by the guest > /etc/weft-test-written; rm /etc/debian_version; sync")
	if _, exit, _ := m.Exec(t.Context(), "touch", ShareOnHostRoot+"/written"); exit == 0 {
		t.Error("the guest wrote to the directory that it shares with the host")
	}

	// Another client waits for a command when the power goes.
	waiting := make(chan error, 1)
	other, err := Open(t.Context(), spec.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	go func() {
		_, _, err := other.Exec(context.WithoutCancel(t.Context()), "sleep", "4321")
		waiting <- err
	}()
	if err := m.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-waiting; !errors.Is(err, errRestarts) && (err == nil || !strings.Contains(err.Error(), "not ready")) {
		t.Errorf("a command in a guest that restarts ends with %v", err)
	}
	if got := mustExec(t, m, "sh", "-c", "cat /etc/weft-test-written /etc/passwd; test -e /etc/debian_version; echo $?"); got != "by the guest\nroot:x:0:0:of the guest:/root:/bin/sh\n1\n" {
		t.Errorf("after a power failure: %q", got)
	}
	b.run("ping", "-c", "2", "-i", "0.01", "-W", "2", "10.9.0.2")
	if again, err := os.ReadFile("/etc/passwd"); err != nil || string(again) != string(hosts) {
		t.Errorf("the host's file has changed: %v", err)
	}
	if _, err := os.Stat("/etc/weft-test-written"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the guest's file is on the host: %v", err)
	}

	// The guest's processes are the supervisor's, which may be killed.
	if err := unix.Kill(m.pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-m.Done()
	if err := waitForEnd(t.Context(), m.pid); err != nil {
		t.Fatal(err)
	}
	for _, p := range b.processes() {
		if strings.Contains(p, "qemu") || strings.Contains(p, roleSupervise) {
			t.Errorf("this is left of the guest: %s", p)
		}
	}
	if left, err := filepath.Glob(filepath.Join(spec.Dir, scratchDir, "*")); err != nil || len(left) > 0 {
		t.Errorf("the guest's disk is left: %q %v", left, err)
	}
}

func TestAGuestBootsSystemdAndRestartsItself(t *testing.T) {
	b := newBench(t)
	b.tap("tap0", "10.9.0.1/24")
	m := b.start(Spec{
		Kind: QEMU, Name: "g1", Dir: shortDir(t), Root: HostRoot, Init: Systemd, Memory: 768,
		NICs:   []NIC{{Name: "lan0", Tap: "tap0"}},
		Files:  map[string][]byte{"/etc/systemd/network/lan.network": []byte("[Match]\nName=lan0\n[Network]\nAddress=10.9.0.2/24\n")},
		Script: "systemctl enable systemd-networkd\necho script >> /var/lib/scripts\n",
	})
	if got := mustExec(t, m, "sh", "-c", "cat /proc/1/comm; ls /etc/systemd/system/multi-user.target.wants; cat /var/lib/scripts"); got != "systemd\nsystemd-networkd.service\nscript\n" {
		t.Errorf("after the first boot: %q", got)
	}
	if got := mustExec(t, m, "sh", "-c", "systemd-detect-virt --container; stat -f -c %T /sys/fs/bpf; systemctl is-active systemd-udevd"); got != "none\nbpf_fs\nactive\n" {
		t.Errorf("systemd does not take it for a machine: %q", got)
	}
	if err := m.Restart(t.Context(), "false"); err == nil || !strings.Contains(err.Error(), "status 1") {
		t.Errorf("a command that does not restart: %v", err)
	}
	if err := m.Restart(t.Context(), "systemctl", "reboot"); err != nil {
		t.Fatal(err)
	}
	b.run("sh", "-c", "for i in $(seq 60); do ping -c 1 -W 1 10.9.0.2 && exit; done; exit 1")
	if got := mustExec(t, m, "cat", "/var/lib/scripts"); got != "script\n" {
		t.Errorf("the script of a first boot ran again: %q", got)
	}
	// A machine that switches itself off is gone.
	m.Exec(t.Context(), "systemctl", "poweroff")
	select {
	case <-m.Done():
	case <-time.After(5 * time.Minute):
		t.Error("the guest has not ended")
	}
}

func TestMistakesAboutTheRootOfAGuest(t *testing.T) {
	address := netip.MustParsePrefix("10.9.0.2/24")
	for want, s := range map[string]Spec{
		"root \"elsewhere\"": {Kind: QEMU, Root: "elsewhere"},
		"UML always has":     {Kind: UML, Root: HostRoot},
		"needs the host's":   {Kind: QEMU, Init: Systemd},
		"systemd is known":   {Kind: QEMU, Root: HostRoot, Init: "runit"},
		"by Files":           {Kind: QEMU, Root: HostRoot, Init: Systemd, NICs: []NIC{{Name: "a", Tap: "b", Addresses: []netip.Prefix{address}}}},
	} {
		s.Name, s.Dir = "g", "/run/g"
		if _, err := s.checked(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestABlankDiskIsToldFromOneWithAFileSystem(t *testing.T) {
	disk := filepath.Join(t.TempDir(), "disk")
	if err := makeDisk(disk, 8); err != nil {
		t.Fatal(err)
	}
	if is, err := blank(disk); err != nil || !is {
		t.Errorf("an empty disk: %v %v", is, err)
	}
	f, err := os.OpenFile(disk, os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteAt([]byte{0x53, 0xef}, 1024+56)
	}
	if err != nil {
		t.Fatal(err)
	}
	if is, err := blank(disk); err != nil || is {
		t.Errorf("a disk with ext4: %v %v", is, err)
	}
}
