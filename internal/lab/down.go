package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"weft/internal/lab/netspace"
)

// Where a weft daemon keeps the files of its network namespace, in a directory named
// by the namespace's cookie.
const (
	pinDir = "/sys/fs/bpf/weft"
	runDir = "/run/weft"
)

// grace is how long processes have to end when asked.
const grace = 3 * time.Second

// Down removes everything with the lab's mark, whichever process made it and however
// that ended: processes in its namespaces, weft's pins and directories for those,
// the namespaces, the lab's directory. If there is nothing, that is no error.
func Down(ctx context.Context, name string) error {
	if !plainName(name) {
		return fmt.Errorf("take down lab %q: no lab has such a name", name)
	}
	names, err := spacesOf(name)
	if err != nil {
		return err
	}
	var spaces []*netspace.Space
	var cookies []uint64
	var failed []error
	for _, n := range names {
		s, err := netspace.Open(n)
		if err != nil {
			continue // a mark without a namespace; deleted below
		}
		defer s.Close()
		cookie, err := s.Cookie()
		if err != nil {
			// A bare file opens but cannot be entered.
			continue
		}
		spaces = append(spaces, s)
		cookies = append(cookies, cookie)
	}
	failed = append(failed, netspace.Stop(ctx, grace, spaces...))
	for _, c := range cookies {
		failed = append(failed, removeOwned(c))
	}
	for _, n := range names {
		failed = append(failed, netspace.Delete(n))
	}
	failed = append(failed, os.RemoveAll(filepath.Join(StateDir, name)))
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("take down lab %s: %w", name, err)
	}
	return nil
}

// plainName reports whether a name stays within the labs' directory. It accepts more
// than Up does, so that other leftovers can be removed.
func plainName(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/\x00")
}

// removeOwned removes what a weft daemon left for a namespace: pinned eBPF objects,
// whose programs are detached by that, and its run directory.
func removeOwned(cookie uint64) error {
	id := strconv.FormatUint(cookie, 10)
	return errors.Join(
		os.RemoveAll(filepath.Join(pinDir, id)),
		os.RemoveAll(filepath.Join(runDir, id)),
	)
}

// DownAll takes down every lab found, and gives their names.
func DownAll(ctx context.Context) ([]string, error) {
	names, err := leftovers()
	if err != nil {
		return nil, err
	}
	var failed []error
	for _, n := range names {
		failed = append(failed, Down(ctx, n))
	}
	return names, errors.Join(failed...)
}

// leftovers finds the names of labs by their marks: namespaces and directories.
func leftovers() ([]string, error) {
	spaces, err := netspace.List(spacePrefix)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, s := range spaces {
		if lab, _, ok := SplitSpaceName(s); ok {
			names = append(names, lab)
		}
	}
	entries, err := os.ReadDir(StateDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list labs: %w", err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// Exists reports whether anything of a lab of that name exists.
func Exists(name string) (bool, error) {
	names, err := leftovers()
	return slices.Contains(names, name), err
}

// spacesOf returns the names of a lab's namespaces.
func spacesOf(lab string) ([]string, error) {
	all, err := netspace.List(SpaceName(lab, ""))
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(s string) bool {
		owner, _, ok := SplitSpaceName(s)
		return !ok || owner != lab
	}), nil
}

// RunningNode is one node of a lab that is up, and its network namespace.
type RunningNode struct{ Lab, Node, Space string }

// FindNode finds a node by NODE or LAB/NODE among the labs that are up.
func FindNode(name string) (RunningNode, error) {
	all, err := netspace.List(spacePrefix)
	if err != nil {
		return RunningNode{}, err
	}
	var found []RunningNode
	var there []string
	for _, s := range all {
		lab, node, ok := SplitSpaceName(s)
		if !ok {
			continue
		}
		there = append(there, lab+"/"+node)
		if name == node || name == lab+"/"+node {
			found = append(found, RunningNode{lab, node, s})
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return RunningNode{}, fmt.Errorf("%d labs have a node %s: say which as LAB/NODE, for example %s/%s", len(found), name, found[0].Lab, name)
	case len(there) == 0:
		return RunningNode{}, errors.New("no lab is up (start one with: weft lab up SCENARIO)")
	}
	return RunningNode{}, fmt.Errorf("no lab has a node %s: there are %v", name, there)
}
