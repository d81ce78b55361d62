package lab

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Program is what is run in a node.
type Program struct {
	Path string
	Args []string // with the name first
	Env  []string
}

// Shell prepares the user's shell, or the command given, to run in a node: the
// prompt says where one is, and weft is on the path.
func Shell(n RunningNode, command []string, weft string, env []string) (Program, error) {
	p := Program{Env: slices.Clone(env)}
	where := n.Lab + "/" + n.Node
	p.set("PATH", p.get("PATH")+":"+filepath.Dir(weft))
	p.set("WEFT_NODE", where)
	if args := guestShell(n, command, weft); args != nil {
		p.Path, p.Args = weft, args
		return p, nil
	}
	interactive := len(command) == 0
	if interactive {
		command = []string{p.get("SHELL")}
		if command[0] == "" {
			command[0] = "/bin/sh"
		}
	}
	path, err := lookPath(command[0], p.get("PATH"))
	if err != nil {
		return p, fmt.Errorf("find %s: %w", command[0], err)
	}
	p.Path, p.Args = path, command
	if !interactive {
		return p, nil
	}
	p.set("PS1", "["+where+"] $ ")
	if filepath.Base(path) == "bash" {
		// bash takes its prompt from its start-up files, so ours comes after.
		rc := filepath.Join(StateDir, n.Lab, n.Node, "bashrc")
		text := fmt.Sprintf("[ -f ~/.bashrc ] && . ~/.bashrc\nPS1='[%s] \\w \\$ '\n", where)
		if os.WriteFile(rc, []byte(text), 0o644) == nil {
			p.Args = []string{path, "--rcfile", rc}
		}
	}
	return p, nil
}

// lookPath is exec.LookPath with a path other than the process's own.
func lookPath(name, path string) (string, error) {
	if strings.Contains(name, "/") {
		return exec.LookPath(name)
	}
	for _, dir := range filepath.SplitList(path) {
		if found, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return found, nil
		}
	}
	return "", exec.ErrNotFound
}

func (p *Program) get(name string) string {
	for _, v := range slices.Backward(p.Env) {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

func (p *Program) set(name, value string) {
	p.Env = slices.DeleteFunc(p.Env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
	p.Env = append(p.Env, name+"="+value)
}
