package guest

import (
	"bufio"
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// specInInitrd is where the agent finds its plan in QEMU's initramfs.
const specInInitrd = "/etc/guest.json"

// SelfInQEMU is the path at which a QEMU guest has the program that is at self
// on the host; with HostRoot it is SelfOnHostRoot.
func SelfInQEMU(self string) string { return "/usr/bin/" + filepath.Base(self) }

// writeInitrd makes a guest's initramfs: this binary as init and the modules; with
// the host's root what mounts it, else busybox for the shell and its tools, and the
// programs asked for.
func writeInitrd(ctx context.Context, path string, plan guestPlan) error {
	spec, err := json.Marshal(plan)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	a := newArchive(w)
	for _, dir := range []string{"dev", "proc", "sys", "run", "tmp", "root", "etc", "var/log", "usr/bin", "lib"} {
		a.directory(dir)
	}
	a.file(specInInitrd, 0o600, spec)
	self := plan.Spec.Self[0]
	if err := addProgram(a, "/init", self); err != nil {
		return err
	}
	if plan.Spec.Root == HostRoot {
		err = addOfPackage(a, "/sbin/"+mke2fs, mke2fs, mke2fsPackage)
	} else {
		a.symlink(SelfInQEMU(self), "/init")
		err = addTools(ctx, a, plan.Spec)
	}
	if err != nil {
		return err
	}
	for _, path := range plan.Modules {
		if err := addFile(a, path, path, 0o644); err != nil {
			return err
		}
	}
	if err := errors.Join(a.close(), w.Flush(), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// addTools adds busybox, a shell and the programs asked for.
func addTools(ctx context.Context, a *archive, s Spec) error {
	busybox, err := program("busybox", busyboxPackage)
	if err != nil {
		return err
	}
	applets, err := exec.CommandContext(ctx, busybox, "--list").Output()
	if err != nil {
		return fmt.Errorf("ask %s for its applets: %w", busybox, err)
	}
	for _, name := range s.Programs {
		if err := addNamed(a, name); err != nil {
			return err
		}
	}
	if err := addProgram(a, "/bin/busybox", busybox); err != nil {
		return err
	}
	// busybox's own shell prefers its applets to the programs asked for.
	if err := addOfPackage(a, "/bin/sh", "dash", "dash"); err != nil {
		return err
	}
	for _, name := range strings.Fields(string(applets)) {
		a.symlink("/bin/"+name, "busybox")
	}
	return nil
}

// addOfPackage adds a program of a Debian package.
func addOfPackage(a *archive, at, name, debianPackage string) error {
	path, err := program(name, debianPackage)
	if err != nil {
		return err
	}
	return addProgram(a, at, path)
}

func addFile(a *archive, name, path string, mode int) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	a.file(name, mode, content)
	return nil
}

// FindProgram returns the files that a name stands for: a program of the host, or
// what fits a pattern of absolute paths, like the plugins of a program.
func FindProgram(name string) ([]string, error) {
	if !filepath.IsAbs(name) {
		path, err := exec.LookPath(name)
		return []string{path}, err
	}
	found, err := filepath.Glob(name)
	if err == nil && len(found) == 0 {
		err = fs.ErrNotExist
	}
	return found, err
}

// addNamed adds a program to those of the guest, or files where the host has them.
func addNamed(a *archive, name string) error {
	found, err := FindProgram(name)
	if err != nil {
		return fmt.Errorf("program %s for the guest: %w", name, err)
	}
	for _, path := range found {
		at := path
		if !filepath.IsAbs(name) {
			at = "/usr/bin/" + filepath.Base(name)
		}
		if err := addProgram(a, at, path); err != nil {
			return err
		}
	}
	return nil
}

// addProgram adds an executable with its interpreter and the libraries it
// names, at the places where the host has them.
func addProgram(a *archive, name, path string) error {
	if err := addFile(a, name, path, 0o755); err != nil {
		return err
	}
	libraries, err := librariesOf(path)
	if err != nil {
		return err
	}
	for _, lib := range libraries {
		if err := addFile(a, lib, lib, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// libraryDirs are the default directories of Debian's dynamic linker.
var libraryDirs = []string{
	"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib",
}

// librariesOf lists the files that a dynamic program needs, indirect ones
// too. A static program, or a script, needs none.
func librariesOf(path string) ([]string, error) {
	var found []string
	seen := map[string]bool{}
	var visit func(path string) error
	visit = func(path string) error {
		f, err := elf.Open(path)
		if err != nil {
			var notELF *elf.FormatError
			if errors.As(err, &notELF) {
				return nil
			}
			return err
		}
		defer f.Close()
		if interpreter := f.Section(".interp"); interpreter != nil {
			content, err := interpreter.Data()
			if err != nil {
				return fmt.Errorf("read the interpreter of %s: %w", path, err)
			}
			found = append(found, strings.TrimRight(string(content), "\x00"))
		}
		needed, err := f.ImportedLibraries()
		if err != nil {
			return fmt.Errorf("read the libraries of %s: %w", path, err)
		}
		for _, lib := range needed {
			if seen[lib] {
				continue
			}
			seen[lib] = true
			at, err := findLibrary(lib)
			if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			found = append(found, at)
			if err := visit(at); err != nil {
				return err
			}
		}
		return nil
	}
	err := visit(path)
	return found, err
}

func findLibrary(name string) (string, error) {
	for _, dir := range libraryDirs {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("library %s: %w", name, fs.ErrNotExist)
}
