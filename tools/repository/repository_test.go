// Package repository holds tests of what a newcomer meets first: the Makefile,
// the scripts, and the page on dependencies.
package repository

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func run(t *testing.T, command ...string) string {
	t.Helper()
	c := exec.Command(command[0], command[1:]...)
	c.Dir = root
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, out)
	}
	return string(out)
}

var (
	rule  = regexp.MustCompile(`(?m)^([a-z][a-z-]*):(.*)$`)
	phony = regexp.MustCompile(`(?m)^\.PHONY: (.*)$`)
)

func targets(t *testing.T) (names []string) {
	for _, found := range rule.FindAllStringSubmatch(read(t, "Makefile"), -1) {
		names = append(names, found[1])
	}
	return names
}

func TestMakeHelpListsEveryTarget(t *testing.T) {
	help := run(t, "make", "--no-print-directory", "help")
	if bare := run(t, "make", "--no-print-directory"); bare != help {
		t.Errorf("make alone prints\n%s", bare)
	}
	list := targets(t)
	for _, name := range []string{"build", "demo", "check", "test", "prove", "generate", "lint", "fuzz", "bench", "man", "install", "clean"} {
		if !slices.Contains(list, name) {
			t.Errorf("there is no target %s", name)
		}
	}
	for _, name := range list {
		if !regexp.MustCompile(`(?m)^  ` + name + ` +\S`).MatchString(help) {
			t.Errorf("make help does not list %s:\n%s", name, help)
		}
	}
}

// No target is a file: one called like it must not keep it from being made.
func TestEveryTargetIsPhony(t *testing.T) {
	found := phony.FindStringSubmatch(read(t, "Makefile"))
	if found == nil {
		t.Fatal("no .PHONY")
	}
	names := strings.Fields(found[1])
	for _, name := range targets(t) {
		if !slices.Contains(names, name) {
			t.Errorf("%s is not phony", name)
		}
	}
}

func TestMakeCanBeAskedWhatItWouldDo(t *testing.T) {
	for _, name := range targets(t) {
		run(t, "make", "--no-print-directory", "-n", name)
	}
}

func TestTheDemoNeedsNothingInstalled(t *testing.T) {
	if would := run(t, "make", "--no-print-directory", "-n", "demo"); strings.Contains(would, "setup.sh") || strings.Contains(would, "apt") {
		t.Errorf("make demo would run\n%s", would)
	}
}

var scripts = []string{"tools/setup.sh", "tools/fuzz.sh", "tools/prove.sh", ".ci/run"}

func TestScriptsAreSound(t *testing.T) {
	for _, name := range scripts {
		run(t, "bash", "-n", name)
		text := read(t, name)
		if !strings.HasPrefix(text, "#!/bin/bash\n# ") {
			t.Errorf("%s does not begin by saying what it is", name)
		}
		if !strings.Contains(text, "\nset -euo pipefail\n") {
			t.Errorf("%s goes on after errors", name)
		}
		info, err := os.Stat(filepath.Join(root, name))
		if err != nil || info.Mode()&0o111 == 0 {
			t.Errorf("%s cannot be run: %v", name, err)
		}
		if strings.Contains(text, "://") {
			t.Errorf("%s names a host", name)
		}
	}
}

func TestContinuousIntegrationRunsMakeTest(t *testing.T) {
	if !strings.Contains(read(t, ".ci/run"), "\nexec make test\n") {
		t.Error(".ci/run does not end in make test")
	}
}

func TestTheSetUpScriptSaysWhatEachPackageIsFor(t *testing.T) {
	tasks := map[string]bool{}
	for line := range strings.Lines(run(t, "tools/setup.sh", "--list")) {
		words := strings.Fields(line)
		if len(words) < 4 {
			t.Errorf("%q: want task, package, and what it is for", line)
			continue
		}
		tasks[words[0]] = true
	}
	for _, task := range []string{"test", "bench", "prove", "generate"} {
		if !tasks[task] {
			t.Errorf("nothing is listed for %s", task)
		}
		if !strings.Contains(read(t, "Makefile"), "tools/setup.sh "+task) {
			t.Errorf("the Makefile never runs setup.sh %s", task)
		}
	}
	if out := run(t, "tools/setup.sh", "demo"); !strings.Contains(out, "nothing to install") {
		t.Errorf("for the demo it says %q", out)
	}
	c := exec.Command("tools/setup.sh", "no-such-task")
	c.Dir = root
	if out, err := c.CombinedOutput(); err == nil || !strings.Contains(string(out), "tools/setup.sh test") {
		t.Errorf("an unknown task: %v, %s", err, out)
	}
}

// A machine that has nothing, made of programs that write down what they are
// asked: dpkg-query knows no package, apt-get lacks its lists at first.
func TestTheSetUpScriptInstallsWhatIsMissingOnAFreshMachine(t *testing.T) {
	for _, c := range []struct {
		name, clang string
		wants       []string
		never       string
	}{
		{"with the pinned compiler", "exit 0", []string{"update", "tayga", "clang-19", "qemu-system-x86"}, "no-such-package"},
		{"without the pinned compiler", "exit 1", []string{"update", "tayga"}, "clang-19"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			log := filepath.Join(dir, "log")
			for name, text := range map[string]string{
				"dpkg-query": "exit 1",
				"apt-cache":  c.clang,
				"id":         "echo 0",
				"apt-get":    `echo "$@" >>` + log + `; case $1 in update) touch ` + dir + `/lists;; *) test -e ` + dir + `/lists;; esac`,
			} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			script := exec.Command("tools/setup.sh", "test")
			script.Dir = root
			script.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
			out, err := script.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			asked, err := os.ReadFile(log)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range c.wants {
				if !strings.Contains(string(asked), want) {
					t.Errorf("apt-get was never asked for %s:\n%s", want, asked)
				}
			}
			if strings.Contains(string(asked), c.never) {
				t.Errorf("apt-get was asked for %s:\n%s", c.never, asked)
			}
			if !strings.Contains(string(out), "the translator that weft is compared with") {
				t.Errorf("it does not say what tayga is for:\n%s", out)
			}
		})
	}
}

// A mirror that is away for a moment, or another apt-get that runs, is waited
// for; what is not to be had at all is an error that says what apt-get said.
func TestTheSetUpScriptTriesAgain(t *testing.T) {
	for _, c := range []struct {
		name   string
		failed int // attempts to install
		fails  bool
		says   string
	}{
		{"it comes in the end", 3, false, "attempt 1 failed (E: Failed to fetch tayga), trying again in 5 s"},
		{"it never comes", 99, true, "failed four times; the last time apt-get said:\nE: Failed to fetch tayga"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			count := filepath.Join(dir, "count")
			for name, text := range map[string]string{
				"dpkg-query": "exit 1", "dpkg": "exit 1", "apt-cache": "exit 0", "id": "echo 0", "sleep": "exit 0",
				"apt-get": `test $1 = install || exit 0; echo >> ` + count + `; test $(wc -l < ` + count + `) -gt ` + fmt.Sprint(c.failed) + ` || { echo E: Failed to fetch tayga; exit 100; }`,
			} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			script := exec.Command("tools/setup.sh", "test")
			script.Dir = root
			script.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
			out, err := script.CombinedOutput()
			if (err != nil) != c.fails || !strings.Contains(string(out), c.says) {
				t.Errorf("%v, want %q:\n%s", err, c.says, out)
			}
		})
	}
}

var requirement = regexp.MustCompile(`(?m)^\t(\S+) (v\S+)$`)

func TestEveryDependencyIsAccountedFor(t *testing.T) {
	page := read(t, "docs/decisions/0004-dependencies.md")
	direct := 0
	for _, found := range requirement.FindAllStringSubmatch(read(t, "go.mod"), -1) {
		direct++
		if !strings.Contains(page, "| "+found[1]+" | "+found[2]+", ") {
			t.Errorf("docs/decisions/0004-dependencies.md has no row for %s %s", found[1], found[2])
		}
	}
	if direct == 0 {
		t.Fatal("go.mod was not understood")
	}
}

// Files of bpf/ are under another licence than the rest, and each says so.
func TestFilesOfBPFNameTheirLicence(t *testing.T) {
	files := strings.Fields(run(t, "find", "bpf", "-name", "*.[ch]", "-not", "-path", "bpf/include/bpf/*"))
	if len(files) < 10 {
		t.Fatalf("only %d files", len(files))
	}
	for _, name := range files {
		first, _, _ := strings.Cut(read(t, name), "\n")
		if !strings.Contains(first, "SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause") {
			t.Errorf("%s begins with %q", name, first)
		}
	}
}
