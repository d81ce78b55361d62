package bench

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"weft/internal/version"
)

// Manifest describes the circumstances of a result.
type Manifest struct {
	Bench    string            `json:"bench"`
	Version  string            `json:"version"`
	Commit   string            `json:"commit"`
	Kernel   string            `json:"kernel"`
	CPU      string            `json:"cpu"`
	CPUs     int               `json:"cpus"`
	Packages map[string]string `json:"packages"`
	Settings map[string]string `json:"settings"`
	Seed     uint64            `json:"seed"`
	Started  time.Time         `json:"started"`
	Load     string            `json:"load"` // averages before the start (proc(5), /proc/loadavg)
}

// Describe fills in a manifest from the machine.
func (b Bench) Describe(o Options, started time.Time) Manifest {
	return Manifest{
		Bench: b.Name, Version: version.String(), Commit: version.Commit(),
		Kernel: kernelRelease(), CPU: cpuModel(), CPUs: runtime.NumCPU(),
		Packages: packageVersions(b.Packages), Settings: b.Settings,
		Seed: o.Seed, Started: started.UTC(), Load: loadAverages(),
	}
}

func kernelRelease() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

func cpuModel() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// packageVersions reads versions from dpkg, without unknown packages.
func packageVersions(names []string) map[string]string {
	versions := map[string]string{}
	for _, name := range names {
		out, err := exec.Command("dpkg-query", "-W", "-f", "${Version}", name).Output()
		if err == nil && len(out) > 0 {
			versions[name] = string(out)
		}
	}
	return versions
}

func loadAverages() string {
	text, err := os.ReadFile("/proc/loadavg")
	if f := strings.Fields(string(text)); err == nil && len(f) > 3 {
		return strings.Join(f[:3], " ")
	}
	return ""
}
