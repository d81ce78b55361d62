package main

import (
	"os"
	"os/exec"
	"strings"
)

// reason is a good one to skip a test: words that the test says, and whether
// they are true of this machine.
type reason struct {
	words string
	holds bool
}

// host is what reasons ask of the machine.
type host interface {
	Root() bool
	HasFile(path string) bool
	HasPackage(name string) bool // installed or to be had
}

// reasons lists all there are. A test that is skipped for any other reason, or
// for one that does not hold, has not done its work.
func reasons(h host) []reason {
	return []reason{
		{"need root", !h.Root()},
		{"needs root", !h.Root()},
		{"needs /dev/net/tun", !h.HasFile("/dev/net/tun")},
		{"not beside this checkout", !h.HasFile("../shared")},
		{"clang-19 is not installed", !h.HasPackage("clang-19")},
		{"chromium is not installed", !h.HasPackage("chromium")},
		{"jool-dkms is not installed", !h.HasPackage("jool-dkms")},
	}
}

// good reports whether one of the reasons that hold is what the test said.
func good(said string, reasons []reason) bool {
	for _, r := range reasons {
		if r.holds && strings.Contains(said, r.words) {
			return true
		}
	}
	return false
}

// machine is the one that the tests run on.
type machine struct{}

func (machine) Root() bool { return os.Geteuid() == 0 }

func (machine) HasFile(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (machine) HasPackage(name string) bool {
	if _, err := exec.LookPath(name); err == nil {
		return true
	}
	return exec.Command("apt-cache", "show", name).Run() == nil
}
