// Package config reads weft.toml strictly: every problem of the text is
// reported at once, each with its place, what is wrong and what would be right.
//
// The package knows the sections that belong to no feature (see core.go). The
// features own theirs and hand them to Load as Sections; from the same structs
// and tags come the decoder, the JSON Schema and the reference page.
//
// Tags of a section's fields:
//
//	toml:"key"          the key; a field without it is not read from the file
//	was:"key"           its name in earlier versions of weft
//	also:"a,b"          its names in other programs
//	doc:"sentence"      what the key means, for the schema and the reference
//	required:"true"     the key must be given
//	enum:"a,b"          the values a string may have
//	min:"" max:""       bounds of a whole number or a duration
//	ip:"4" or ip:"6"    the only address family allowed; with ",bare" a prefix
//	                    may be written as an address, with ",host" it keeps the
//	                    bits behind its length
//	example:""          TOML for the reference page
package config

import (
	"weft/internal/state"
)

// Section is one table of weft.toml, [router] or, if Named, [interface.NAME].
type Section struct {
	Name  string
	Was   string // its name in earlier versions of weft
	Named bool
	Doc   string // sentences, for the schema and the reference
	// Roles are what the section wants interfaces for: those in its key
	// interfaces, or all of the file.
	Roles state.Roles
	// New gives a pointer to a struct that holds the defaults of the section
	// called name; name is empty unless the section is Named.
	New func(name string) any
	// Check looks at one decoded section once all of them are decoded. It may
	// be nil. It is not called when the text has syntax errors.
	Check func(c *Checker, name string, section any)
	// Expand writes what one decoded section stands for into other sections, before
	// those are decoded. A section that has it has no effect of its own.
	Expand func(e *Expander, name string, section any)
}

// File is a decoded weft.toml.
type File struct {
	file     string
	text     []byte
	root     *node
	sections []Section
	decoded  map[string]map[string]any // section, name ("" unless Named)
	names    map[string][]string       // section -> names in the order of the file
	problems []state.Problem
}

// Load reads text, which is called file in positions. The File is never nil:
// what could not be read has its default. The problems are in the order of the
// text; with state.HasErrors the File must not be applied.
func Load(file string, text []byte, sections []Section) (*File, []state.Problem) {
	f := &File{
		file:     file,
		text:     text,
		sections: sections,
		decoded:  map[string]map[string]any{},
		names:    map[string][]string{},
	}
	whole := f.parse()
	d := decoder{file: f, whole: whole, expanded: map[string]bool{}}
	d.sections()
	if whole {
		f.check()
	}
	f.problems = f.written()
	state.SortProblems(f.problems)
	return f, f.problems
}

func (f *File) check() {
	for _, s := range f.sections {
		if s.Check == nil {
			continue
		}
		if !s.Named {
			s.Check(&Checker{file: f, path: s.Name}, "", f.Get(s.Name, ""))
		}
		for _, name := range f.names[s.Name] {
			s.Check(&Checker{file: f, path: join(s.Name, name)}, name, f.Get(s.Name, name))
		}
	}
}

// Get returns the pointer that the section's New made, filled from the file; nil
// for a named section that the file does not have.
func (f *File) Get(section, name string) any { return f.decoded[section][name] }

// Names returns the names of a Named section in the order of the file.
func (f *File) Names(section string) []string { return f.names[section] }

// Position returns the place of a path like nat64.main.mappings[2].ipv4, or of
// its nearest ancestor that the file has.
func (f *File) Position(path string) state.Position {
	at := f.root
	for _, step := range steps(path) {
		next := at.child(step)
		if next == nil {
			break
		}
		at = next
	}
	if at == f.root {
		return state.Position{File: f.file}
	}
	return f.at(at.offset)
}

// Given reports whether the file has the path, right or wrong.
func (f *File) Given(path string) bool {
	return f.find(path) != nil
}

// find returns the node at a path, nil if the file has none.
func (f *File) find(path string) *node {
	at := f.root
	for _, step := range steps(path) {
		if at = at.child(step); at == nil {
			return nil
		}
	}
	return at
}

func (f *File) problem(severity state.Severity, pos state.Position, path, what, remedy string) {
	f.problems = append(f.problems, state.Problem{
		Severity: severity, Pos: pos, Path: path, What: what, Remedy: remedy,
	})
}

// broken reports whether an error was found at path, below it, or in the value
// that holds it.
func (f *File) broken(path string) bool {
	for _, p := range f.problems {
		if p.Severity == state.Error && (within(p.Path, path) || (within(path, p.Path) && f.wrongValue(p))) {
			return true
		}
	}
	return false
}

// wrongValue reports whether p is about the whole value at its path, not about
// something that a section or table lacks.
func (f *File) wrongValue(p state.Problem) bool {
	at := f.root
	for _, step := range steps(p.Path) {
		if at = at.child(step); at == nil {
			return false
		}
	}
	return at.kind != kindTable
}

// Checker is what a Section's Check reports to. Keys are paths inside the
// section, like mtu or mappings[2].ipv4; the empty key is the section itself.
type Checker struct {
	file *File
	path string
}

// File returns the file under check, for looking at other sections.
func (c *Checker) File() *File { return c.file }

// Path returns the full path of a key.
func (c *Checker) Path(key string) string { return join(c.path, key) }

// Given reports whether the file has the key, right or wrong.
func (c *Checker) Given(key string) bool { return c.file.Given(c.Path(key)) }

// Broken reports whether an error was already reported for the key, so that its
// decoded value says nothing.
func (c *Checker) Broken(key string) bool { return c.file.broken(c.Path(key)) }

// Error reports what is wrong with a key and what would be right. A key whose
// value could not even be read has its one line already: nothing is added.
func (c *Checker) Error(key, what, remedy string) { c.report(state.Error, key, what, remedy) }

// Warn is like Error for what weft runs with.
func (c *Checker) Warn(key, what, remedy string) { c.report(state.Warning, key, what, remedy) }

func (c *Checker) report(severity state.Severity, key, what, remedy string) {
	if key != "" && c.Broken(key) {
		return
	}
	path := c.Path(key)
	c.file.problem(severity, c.file.Position(path), path, what, remedy)
}
