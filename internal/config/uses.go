package config

import (
	"reflect"

	"weft/internal/state"
)

// Use is what a section wants an interface for. By it one section is checked
// against others without knowing them.
type Use struct {
	Section   string // as in nat64.main
	Interface string // NAME
	Roles     state.Roles
	Path      string // the list that has the interface, as in nat64.main.interfaces; empty if the section uses all
	Lists     bool   // the section may list the interfaces that it uses
}

// Roles returns what interfaces may be for: the roles of all sections that the
// file has.
func (f *File) Roles() state.Roles {
	var all state.Roles
	for _, s := range f.sections {
		if f.Given(s.Name) {
			all |= s.Roles
		}
	}
	return all
}

// NamesFor returns the names of the Named sections whose interfaces have these
// roles.
func (f *File) NamesFor(roles state.Roles) []string {
	var names []string
	for _, s := range f.sections {
		if s.Named && s.Roles&roles != 0 {
			names = append(names, f.names[s.Name]...)
		}
	}
	return names
}

// Uses lists what sections want interfaces for, those of some of these roles.
func (f *File) Uses(roles state.Roles) []Use {
	var list []Use
	for _, s := range f.sections {
		switch {
		case s.Roles&roles == 0:
		case !s.Named && f.Given(s.Name):
			list = append(list, f.usesOf(s, s.Name)...)
		case s.Named:
			for _, name := range f.names[s.Name] {
				list = append(list, f.usesOf(s, join(s.Name, name))...)
			}
		}
	}
	return list
}

// Need is what a key of the file, like route.interfaces[0], wants of
// [interface.NAME] in some roles.
func (f *File) Need(path, name string, roles state.Roles) state.Need {
	i := f.Interface(name)
	return state.Need{Interface: name, Device: i.Device, Hook: i.Hook, Roles: roles, Path: path, Pos: f.Position(path)}
}

// usesOf reads the list interfaces of a section as the file has it: it may be
// looked at while the file is still checked.
func (f *File) usesOf(s Section, path string) []Use {
	field, lists := fieldsOf(reflect.TypeOf(s.New("")).Elem())["interfaces"]
	key := join(path, "interfaces")
	names := f.strings(key)
	switch {
	case lists && f.Given(key):
	case lists && field.Tag.Get("required") == "true":
		return nil // an error of its own
	default:
		key, names = "", f.names["interface"]
	}
	var list []Use
	for _, name := range names {
		list = append(list, Use{Section: path, Interface: name, Roles: s.Roles, Path: key, Lists: lists})
	}
	return list
}

// strings returns the list of strings at a path, as the file has it.
func (f *File) strings(path string) []string {
	at := f.root
	for _, step := range steps(path) {
		if at = at.child(step); at == nil {
			return nil
		}
	}
	var list []string
	for _, item := range at.items {
		list = append(list, item.text)
	}
	return list
}
