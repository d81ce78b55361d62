package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"weft/internal/lab/guest"
	"weft/internal/lab/netspace"
)

// StateDir holds a directory for each lab that is up, and in it one for each
// node: configuration, logs, sockets.
const StateDir = "/run/weft/lab"

// labName keeps the names of namespaces and sockets short and plain.
var labName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)

// Options select the scenario and how to bring it up.
type Options struct {
	Name     string // of the lab; "" = the scenario's
	Scenario *Scenario
	Source   Source
	Weft     string        // path of the weft program that nodes run
	Started  time.Time     // written to the lab's record
	Progress func(Step)    // called for each step before it is done; may be nil
	Deadline time.Duration // for each process to become ready; 0 = 15 s
}

// Lab is a lab that this process brought up.
type Lab struct {
	Name      string
	scenario  *Scenario
	weft      string
	dir       string
	deadline  time.Duration
	spaces    map[string]*netspace.Space // by node
	processes []*process
	guests    map[string]*guest.Machine // by node
	progress  func(Step)
}

// Record is the description of a running lab in its directory.
type Record struct {
	Name     string    `json:"name"`
	Scenario string    `json:"scenario"`
	Title    string    `json:"title"`
	Started  time.Time `json:"started"`
}

// ErrRunning is returned if a lab of that name exists already.
var ErrRunning = errors.New("it is already there")

// Up brings a lab up. When it fails it takes down what it has built, unless
// the lab was there before: then the error wraps ErrRunning.
func Up(ctx context.Context, o Options) (*Lab, error) {
	if o.Name == "" {
		o.Name = o.Source.Name
	}
	if err := Possible(o); err != nil {
		return nil, err
	}
	l := &Lab{
		Name: o.Name, scenario: o.Scenario, weft: o.Weft, dir: filepath.Join(StateDir, o.Name),
		deadline: o.Deadline, spaces: map[string]*netspace.Space{}, guests: map[string]*guest.Machine{},
		progress: o.Progress,
	}
	if l.deadline == 0 {
		l.deadline = 3 * time.Minute // an emulated guest boots slowly where others run, too
	}
	if err := l.claim(o); err != nil {
		return nil, err
	}
	if err := l.build(ctx); err != nil {
		down := Down(context.WithoutCancel(ctx), l.Name)
		l.Close()
		return nil, errors.Join(err, down)
	}
	return l, nil
}

// Possible returns, before anything is created, the reason why Up would fail.
func Possible(o Options) error {
	if !labName.MatchString(o.Name) {
		return fmt.Errorf("%q cannot be a lab's name: give another with --name (at most 32 small letters, digits and hyphens)", o.Name)
	}
	if os.Geteuid() != 0 {
		return errors.New("a lab needs root: network namespaces are made with it (try sudo)")
	}
	there, err := Exists(o.Name)
	if err == nil && there {
		err = taken(o.Name)
	}
	if err != nil {
		return err
	}
	return findPrograms(o.Scenario)
}

func taken(name string) error {
	return fmt.Errorf("bring up lab %s: %w (take it down with: weft lab down %s; or start this one under another name: --name)", name, ErrRunning, name)
}

// claim reserves the lab's name by creating its directory, which only one process
// can.
func (l *Lab) claim(o Options) error {
	if err := os.MkdirAll(StateDir, 0o755); err != nil {
		return fmt.Errorf("make the labs' directory: %w", err)
	}
	if err := os.Mkdir(l.dir, 0o755); errors.Is(err, fs.ErrExist) {
		return taken(l.Name)
	} else if err != nil {
		return fmt.Errorf("make the lab's directory: %w", err)
	}
	left, err := spacesOf(l.Name)
	if err == nil && len(left) > 0 {
		err = taken(l.Name)
	}
	if err == nil {
		err = writeRecord(l.dir, Record{l.Name, o.Source.Name, o.Scenario.Title, o.Started})
	}
	if err != nil {
		os.RemoveAll(l.dir)
	}
	return err
}

func writeRecord(dir string, r Record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "lab.json"), append(text, '\n'), 0o644)
}

// report passes on a step, or what a guest does within one.
func (l *Lab) report(s Step) {
	if l.progress != nil {
		l.progress(s)
	}
}

func (l *Lab) build(ctx context.Context) error {
	for _, step := range Plan(l.scenario, l.Name) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		l.report(step)
		if err := l.apply(ctx, step); err != nil {
			return err
		}
	}
	return nil
}

// Close gives up the handles; the lab stays up.
func (l *Lab) Close() {
	for _, g := range l.guests {
		g.Close()
	}
	for _, s := range l.spaces {
		s.Close()
	}
}

// nodeDir is the directory of one node.
func (l *Lab) nodeDir(node string) string { return filepath.Join(l.dir, node) }

// Running lists the labs that are up, and those of which something is left.
func Running() ([]Record, error) {
	names, err := leftovers()
	if err != nil {
		return nil, err
	}
	var rs []Record
	for _, name := range names {
		r := Record{Name: name}
		text, err := os.ReadFile(filepath.Join(StateDir, name, "lab.json"))
		if err == nil {
			err = json.Unmarshal(text, &r)
		}
		if err != nil {
			r = Record{Name: name, Title: "remains of a lab"}
		}
		rs = append(rs, r)
	}
	return rs, nil
}
