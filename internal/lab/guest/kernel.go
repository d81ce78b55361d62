package guest

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The Debian packages of what guests are made of, and the kernel of QEMU's
// where none is asked for.
const (
	umlPackage     = "user-mode-linux"
	qemuPackage    = "qemu-system-x86"
	busyboxPackage = "busybox-static"
	usualKernel    = "6.12"
)

// moduleTree is one kernel's modules as depmod left them.
type moduleTree struct {
	dir     string              // the directory of modules.dep
	path    map[string]string   // module name -> file, relative to dir
	deps    map[string][]string // file -> files it depends on, nearest first
	builtin map[string]bool     // module names compiled into the kernel
}

// moduleName returns the name under which the kernel knows a module's file.
func moduleName(path string) string {
	name, _, _ := strings.Cut(filepath.Base(path), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

func readModuleTree(dir string) (*moduleTree, error) {
	t := &moduleTree{dir: dir, path: map[string]string{}, deps: map[string][]string{}, builtin: map[string]bool{}}
	err := eachLine(filepath.Join(dir, "modules.dep"), func(line string) {
		file, rest, ok := strings.Cut(line, ":")
		if !ok {
			return
		}
		t.path[moduleName(file)] = file
		t.deps[file] = strings.Fields(rest)
	})
	if err != nil {
		return nil, err
	}
	err = eachLine(filepath.Join(dir, "modules.builtin"), func(line string) {
		t.builtin[moduleName(line)] = true
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return t, nil
}

func eachLine(path string, do func(string)) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		do(lines.Text())
	}
	return lines.Err()
}

// order lists the absolute paths to load for the named modules, dependencies
// before their users, each once. modules.dep lists dependencies transitively,
// the last to be loaded first.
func (t *moduleTree) order(names []string) ([]string, error) {
	var paths []string
	add := func(file string) {
		if p := filepath.Join(t.dir, file); !slices.Contains(paths, p) {
			paths = append(paths, p)
		}
	}
	for _, name := range names {
		name = strings.ReplaceAll(name, "-", "_")
		if t.builtin[name] {
			continue
		}
		file, ok := t.path[name]
		if !ok {
			return nil, fmt.Errorf("module %s: not among the modules of %s", name, t.dir)
		}
		for _, dep := range slices.Backward(t.deps[file]) {
			add(dep)
		}
		add(file)
	}
	return paths, nil
}

// present returns those of the names that the tree has as modules.
func (t *moduleTree) present(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return t.path[n] == "" })
}

// debianKernel finds the newest installed kernel whose version begins with
// prefix, and its modules.
func debianKernel(root, prefix string) (image, modules string, err error) {
	found, err := filepath.Glob(filepath.Join(root, "boot/vmlinuz-"+prefix+"*"))
	if err != nil {
		return "", "", fmt.Errorf("kernel %q: %w", prefix, err)
	}
	var versions []string
	for _, f := range found {
		v := strings.TrimPrefix(filepath.Base(f), "vmlinuz-")
		rest := strings.TrimPrefix(v, prefix)
		if rest == "" || rest[0] < '0' || rest[0] > '9' {
			versions = append(versions, v)
		}
	}
	if len(versions) == 0 {
		return "", "", fmt.Errorf("kernel %s: none in %s: install the Debian package %s",
			prefix, filepath.Join(root, "boot"), kernelPackage(prefix))
	}
	newest := slices.MaxFunc(versions, compareVersions)
	return filepath.Join(root, "boot/vmlinuz-"+newest), filepath.Join(root, "lib/modules", newest), nil
}

// kernelPackage names the Debian 12 package of a kernel: 6.1 is the release's
// own, later ones carry their version.
func kernelPackage(prefix string) string {
	if prefix == "6.1" || strings.HasPrefix(prefix, "6.1.") {
		return "linux-image-amd64"
	}
	return "linux-image-" + prefix + "-amd64"
}

// compareVersions orders versions by their numbers, so that 6.1.9 < 6.1.10.
func compareVersions(a, b string) int {
	return slices.Compare(numbers(a), numbers(b))
}

func numbers(version string) []int {
	var ns []int
	for _, field := range strings.FieldsFunc(version, func(r rune) bool { return r < '0' || r > '9' }) {
		n, err := strconv.Atoi(field)
		if err != nil { // longer than any version's number
			n = 0
		}
		ns = append(ns, n)
	}
	return ns
}

// program finds a program of the host, or names the package that has it.
func program(name, debianPackage string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s is not installed: install the Debian package %s", name, debianPackage)
	}
	return filepath.Abs(path)
}

// Possible returns what this machine lacks for a guest: programs, and
// QEMU's kernel, each with the Debian package that has it, and for UML a CPU
// that it runs on.
func Possible(s Spec) error {
	if s.Kind == UML {
		linux, err := program("linux.uml", umlPackage)
		if err == nil {
			_, err = umlNeedsWrapper(linux)
		}
		return err
	}
	_, qemu := program(qemuBinary, qemuPackage)
	_, _, image := debianKernel("/", or(s.Kernel, usualKernel))
	var tools error
	if s.Root == HostRoot {
		tools = possibleHostRoot(s.Init)
	} else {
		_, tools = program("busybox", busyboxPackage)
	}
	return errors.Join(qemu, tools, image)
}
