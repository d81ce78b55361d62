package lab

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"weft/internal/state"
)

//go:embed scenarios/*.toml
var embedded embed.FS

// Source is a scenario's text and where it came from.
type Source struct {
	Name string // short name; the default name of a lab
	File string // for messages
	Text []byte
	Dir  string // where files that it names are looked for; "" if embedded
}

// Embedded returns the scenarios that are part of the program, by name.
func Embedded() ([]Source, error) {
	entries, err := embedded.ReadDir("scenarios")
	if err != nil {
		return nil, err
	}
	var all []Source
	for _, e := range entries {
		text, err := embedded.ReadFile("scenarios/" + e.Name())
		if err != nil {
			return nil, err
		}
		all = append(all, Source{Name: strings.TrimSuffix(e.Name(), ".toml"), File: e.Name(), Text: text})
	}
	return all, nil
}

// Find returns the embedded scenario of that name or, where the name has a slash
// or ends in .toml, the file.
func Find(name string) (Source, error) {
	if strings.ContainsRune(name, '/') || strings.HasSuffix(name, ".toml") {
		text, err := os.ReadFile(name)
		if err != nil {
			return Source{}, fmt.Errorf("read scenario: %w", err)
		}
		short := strings.TrimSuffix(filepath.Base(name), ".toml")
		return Source{Name: short, File: name, Text: text, Dir: filepath.Dir(name)}, nil
	}
	all, err := Embedded()
	if err != nil {
		return Source{}, err
	}
	i := slices.IndexFunc(all, func(s Source) bool { return s.Name == name })
	if i < 0 {
		var names []string
		for _, s := range all {
			names = append(names, s.Name)
		}
		return Source{}, fmt.Errorf("no scenario is called %q: there are %s, or give a file that ends in .toml", name, strings.Join(names, ", "))
	}
	return all[i], nil
}

// Invalid is what is wrong with a scenario.
type Invalid []state.Problem

func (i Invalid) Error() string {
	lines := make([]string, len(i))
	for k, p := range i {
		lines[k] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Parse reads and validates a scenario. The error is an Invalid that holds
// every problem found.
func Parse(src Source) (*Scenario, error) {
	var s Scenario
	d := toml.NewDecoder(bytes.NewReader(src.Text)).DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return nil, decodeProblems(src.File, err)
	}
	v := validator{places: indexPlaces(src), scenario: &s}
	if err := readWeftFiles(&s, src.Dir, &v); err != nil {
		return nil, err
	}
	v.run()
	if len(v.problems) > 0 {
		state.SortProblems(v.problems)
		return nil, Invalid(v.problems)
	}
	return &s, nil
}

func decodeProblems(file string, err error) error {
	var unknown *toml.StrictMissingError
	var one *toml.DecodeError
	var found Invalid
	switch {
	case errors.As(err, &unknown):
		for _, e := range unknown.Errors {
			found = append(found, state.Problem{Pos: at(file, &e), Path: strings.Join(e.Key(), "."),
				What: "this key is not known here", Remedy: "look at the spelling, and at which table the key stands in"})
		}
	case errors.As(err, &one):
		found = append(found, state.Problem{Pos: at(file, one), Path: strings.Join(one.Key(), "."),
			What: strings.TrimPrefix(one.Error(), "toml: ")})
	default:
		return fmt.Errorf("read scenario %s: %w", file, err)
	}
	return found
}

func at(file string, e *toml.DecodeError) state.Position {
	line, column := e.Position()
	return state.Position{File: file, Line: line, Column: column}
}

// readWeftFiles puts the text of the file where a node's weft key names one.
func readWeftFiles(s *Scenario, dir string, v *validator) error {
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Weft == "" || strings.ContainsAny(n.Weft, "=\n") {
			continue
		}
		if dir == "" && !filepath.IsAbs(n.Weft) {
			v.add(fmt.Sprintf("node[%d].weft", i), "a scenario inside the program cannot name a file", "write the configuration here, between triple quotes")
			continue
		}
		path := n.Weft
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			v.add(fmt.Sprintf("node[%d].weft", i), fmt.Sprintf("there is no file %s", path), "paths count from the scenario's directory")
			continue
		}
		if err != nil {
			return fmt.Errorf("read weft configuration: %w", err)
		}
		n.Weft = string(text)
	}
	return nil
}
