// Package packaging_test installs what packaging/ makes into directories, and
// looks at what is there and what is left.
package packaging_test

import (
	"debug/elf"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"weft/internal/testbin"
)

// directory is where the scripts are.
const directory = "../../packaging"

// output runs a command that must succeed.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	c := exec.Command(name, args...)
	c.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1764000000", "WEFT_DEB_COMPRESSION=none")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func needTool(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("%s is not there", name)
	}
}

// pack makes the package of a version and gives its file.
func pack(t *testing.T, version string) string {
	t.Helper()
	needTool(t, "dpkg-deb")
	return strings.TrimSpace(output(t, directory+"/deb.sh", testbin.Weft(t), version, t.TempDir()))
}

// filesIn lists the files and links below a directory, with modes.
func filesIn(t *testing.T, root string) map[string]fs.FileMode {
	t.Helper()
	files := map[string]fs.FileMode{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		files[strings.TrimPrefix(path, root)] = info.Mode()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestThePackageHoldsWhatDebianExpects(t *testing.T) {
	deb := pack(t, "0.1.0-rc1")
	if got := filepath.Base(deb); !strings.HasPrefix(got, "weft_0.1.0~rc1_") {
		t.Errorf("the package is called %s", got)
	}
	root := t.TempDir()
	output(t, "dpkg-deb", "-x", deb, root)
	files := filesIn(t, root)
	for path, mode := range map[string]fs.FileMode{
		"/usr/bin/weft": 0o755, "/usr/bin/weft-bus": 0o755, "/usr/lib/systemd/system/weft.service": 0o644, "/etc/weft/weft.toml": 0o600,
		"/usr/share/man/man8/weft.8.gz": 0o644, "/usr/share/man/man5/weft.toml.5.gz": 0o644, "/usr/share/man/man8/weft-show-health.8.gz": 0o644,
		"/usr/share/bash-completion/completions/weft": 0o644, "/usr/share/zsh/vendor-completions/_weft": 0o644,
		"/usr/share/fish/vendor_completions.d/weft.fish": 0o644, "/usr/share/doc/weft/copyright": 0o644,
		"/usr/share/doc/weft/changelog.gz": 0o644, "/usr/share/doc/weft/NEWS.gz": 0o644, "/usr/share/doc/weft/modules-licences.gz": 0o644,
	} {
		if got, ok := files[path]; !ok || got != mode {
			t.Errorf("%s has the mode %v (there: %v), want %v", path, got, ok, mode)
		}
	}
	for path, mode := range files {
		if mode.Perm()&0o022 != 0 || (mode.Perm()&0o111 != 0) != strings.HasPrefix(path, "/usr/bin/weft") {
			t.Errorf("%s has the mode %v", path, mode)
		}
		if strings.HasPrefix(path, "/usr/share/man") && !strings.HasSuffix(path, ".gz") {
			t.Errorf("the manual page %s is not compressed", path)
		}
	}
	for _, line := range strings.Split(strings.TrimSpace(output(t, "dpkg-deb", "-c", deb)), "\n") {
		if !strings.Contains(line, " root/root ") {
			t.Errorf("this does not belong to root: %s", line)
		}
	}
	program, err := elf.Open(filepath.Join(root, "usr/bin/weft"))
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	if needed, err := program.ImportedLibraries(); err != nil || len(needed) > 0 {
		t.Errorf("the program needs %v (%v), which the package does not depend on", needed, err)
	}
	if licences := output(t, "zcat", filepath.Join(root, "usr/share/doc/weft/modules-licences.gz")); !strings.Contains(licences, "== github.com/cilium/ebpf v") {
		t.Error("the licence of the library cilium/ebpf is missing")
	}
}

func TestTheControlFilesOfThePackage(t *testing.T) {
	deb := pack(t, "0.1.0")
	control := t.TempDir()
	output(t, "dpkg-deb", "-e", deb, control)
	if text, err := os.ReadFile(filepath.Join(control, "conffiles")); err != nil || string(text) != "/etc/weft/weft.toml\n" {
		t.Errorf("conffiles: %q %v", text, err)
	}
	for _, field := range []string{"Package", "Version", "Architecture", "Maintainer", "Installed-Size", "Section", "Priority", "Description"} {
		if output(t, "dpkg-deb", "-f", deb, field) == "" {
			t.Errorf("control has no %s", field)
		}
	}
	if text, _ := os.ReadFile(filepath.Join(control, "control")); strings.Contains(string(text), "@") && regexp.MustCompile(`@[A-Z]+@`).Match(text) {
		t.Errorf("a placeholder is left in control:\n%s", text)
	}
	for _, script := range []string{"postinst", "prerm", "postrm"} {
		text, err := os.ReadFile(filepath.Join(control, script))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(text), "#!/bin/sh\nset -e\n") {
			t.Errorf("%s does not end at the first error", script)
		}
		output(t, "sh", "-n", filepath.Join(control, script))
	}
	root := t.TempDir()
	output(t, "dpkg-deb", "-x", deb, root)
	output(t, "sh", "-c", "cd "+root+" && md5sum --quiet -c "+filepath.Join(control, "md5sums"))
	again, err := os.ReadFile(pack(t, "0.1.0"))
	if first, _ := os.ReadFile(deb); err != nil || !slices.Equal(first, again) {
		t.Error("the same program gives another package")
	}
}

// dpkg works on a root directory of its own. The maintainer scripts see DPKG_ROOT
// and leave this machine alone.
func dpkg(t *testing.T, root string, args ...string) string {
	t.Helper()
	return output(t, "dpkg", append([]string{"--root=" + root, "--force-script-chrootless", "--force-depends"}, args...)...)
}

func TestInstallUpgradeAndPurgeLeaveNothing(t *testing.T) {
	needTool(t, "dpkg")
	needTool(t, "deb-systemd-helper")
	if os.Geteuid() != 0 {
		t.Skip("dpkg needs root")
	}
	root := t.TempDir()
	admin := filepath.Join(root, "var/lib/dpkg")
	for _, dir := range []string{"info", "updates", "triggers"} {
		if err := os.MkdirAll(filepath.Join(admin, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(admin, "status"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	ours := func() []string { // what is there beside dpkg's own files
		var paths []string
		for path := range filesIn(t, root) {
			if !strings.HasPrefix(path, "/var/lib/dpkg/") && path != "/var/log/dpkg.log" {
				paths = append(paths, path)
			}
		}
		slices.Sort(paths)
		return paths
	}

	dpkg(t, root, "-i", pack(t, "0.1.0-rc1"))
	if wants := filepath.Join(root, "etc/systemd/system/multi-user.target.wants/weft.service"); exists(wants) {
		t.Error("the installation enables a router that has no weft.toml yet")
	}
	file := filepath.Join(root, "etc/weft/weft.toml")
	mine := "[router]\nname = \"attic\"\n"
	if err := os.WriteFile(file, []byte(mine), 0o600); err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(root, "var/lib/weft")
	if err := os.MkdirAll(state, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(state, "lan.leases"), nil, 0o600); err != nil {
		t.Fatal(err)
	}

	dpkg(t, root, "--force-confold", "-i", pack(t, "0.1.0")) // 0.1.0 is later than 0.1.0~rc1
	if got := dpkg(t, root, "--status", "weft"); !strings.Contains(got, "Version: 0.1.0\n") || !strings.Contains(got, "install ok installed") {
		t.Errorf("after the upgrade:\n%s", got)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != mine {
		t.Errorf("the upgrade has changed weft.toml: %q %v", text, err)
	}

	dpkg(t, root, "--remove", "weft")
	if !exists(file) || !exists(filepath.Join(state, "lan.leases")) {
		t.Error("the removal has taken the configuration or the leases")
	}
	if exists(filepath.Join(root, "usr/bin/weft")) {
		t.Error("the program is still there")
	}
	dpkg(t, root, "--purge", "weft")
	if left := ours(); len(left) > 0 {
		t.Errorf("the purge leaves %s", strings.Join(left, " "))
	}
	if exists(filepath.Join(root, "etc/weft")) || exists(state) {
		t.Error("the purge leaves directories")
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func TestUninstallRemovesWhatInstallHasInstalled(t *testing.T) {
	root := t.TempDir()
	output(t, directory+"/install.sh", testbin.Weft(t), root, "/usr/local", "/etc/systemd/system")
	unit, err := os.ReadFile(filepath.Join(root, "etc/systemd/system/weft.service"))
	if err != nil || !strings.Contains(string(unit), "ExecStart=/usr/local/bin/weft run") || strings.Contains(string(unit), "/usr/bin/weft") {
		t.Errorf("%v: the unit runs another program:\n%s", err, unit)
	}
	if files := filesIn(t, root); files["/etc/weft/weft.toml"] != 0o600 || len(files) < 30 {
		t.Errorf("installed: %v", files)
	}
	file := filepath.Join(root, "etc/weft/weft.toml")
	if err := os.WriteFile(file, []byte("# mine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	output(t, directory+"/install.sh", testbin.Weft(t), root, "/usr/local", "/etc/systemd/system")
	if text, _ := os.ReadFile(file); string(text) != "# mine\n" {
		t.Error("a second installation replaces weft.toml")
	}
	output(t, directory+"/uninstall.sh", root, "/usr/local", "/etc/systemd/system")
	if files := filesIn(t, root); len(files) != 1 || files["/etc/weft/weft.toml"] == 0 {
		t.Errorf("left: %v", files)
	}
}

func TestTheUnitIsHardened(t *testing.T) {
	needTool(t, "systemd-analyze")
	out := output(t, "systemd-analyze", "security", "--offline=true", directory+"/weft.service")
	found := regexp.MustCompile(`Overall exposure level for weft\.service: ([0-9.]+)`).FindStringSubmatch(out)
	if found == nil {
		t.Fatalf("there is no figure in\n%s", out)
	}
	if exposure, err := strconv.ParseFloat(found[1], 64); err != nil || exposure > 3.0 {
		t.Errorf("the exposure is %s, want at most 3.0:\n%s", found[1], out)
	}
	// what it must not take away
	unit, err := os.ReadFile(directory + "/weft.service")
	if err != nil {
		t.Fatal(err)
	}
	for _, forbidden := range []string{"ProtectKernelTunables=yes", "PrivateNetwork=yes", "PrivateUsers=yes", "PrivateDevices=yes", "ProcSubset=pid", "SystemCallFilter=~@privileged"} {
		if strings.Contains(string(unit), "\n"+forbidden) {
			t.Errorf("with %s weft cannot work", forbidden)
		}
	}
}
