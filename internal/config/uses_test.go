package config_test

import (
	"slices"
	"testing"

	"weft/internal/config"
	"weft/internal/state"
)

// A section says by its roles what it wants interfaces for: those that it lists,
// or all if it has, or may have, no list.
func TestSectionsUseTheInterfacesThatTheyList(t *testing.T) {
	type must struct {
		Interfaces []string `toml:"interfaces" required:"true"`
	}
	type may struct {
		Interfaces []string `toml:"interfaces"`
	}
	sections := append(config.CoreSections(),
		config.Section{Name: "one", Roles: state.RoleRouted, New: func(string) any { return &must{} }},
		config.Section{Name: "many", Named: true, Roles: state.RolePseudowires, New: func(string) any { return &may{} }},
		config.Section{Name: "none", Named: true, Roles: state.RoleSubscribers, New: func(string) any { return &struct{}{} }},
		config.Section{Name: "other", New: func(string) any { return &must{} }},
	)
	f, _ := config.Load("weft.toml", []byte(`
[interface.a]
[interface.b]
[one]
interfaces = ["b"]
[many.x]
interfaces = ["a"]
[many.y]
[none.z]
[other]
interfaces = ["a"]
`), sections)
	all := state.RoleRouted | state.RolePseudowires | state.RoleSubscribers
	want := []config.Use{
		{Section: "one", Interface: "b", Roles: state.RoleRouted, Path: "one.interfaces", Lists: true},
		{Section: "many.x", Interface: "a", Roles: state.RolePseudowires, Path: "many.x.interfaces", Lists: true},
		{Section: "many.y", Interface: "a", Roles: state.RolePseudowires, Lists: true},
		{Section: "many.y", Interface: "b", Roles: state.RolePseudowires, Lists: true},
		{Section: "none.z", Interface: "a", Roles: state.RoleSubscribers},
		{Section: "none.z", Interface: "b", Roles: state.RoleSubscribers},
	}
	if got := f.Uses(all); !slices.Equal(got, want) {
		t.Errorf("the uses are\n%+v, want\n%+v", got, want)
	}
	if got := f.Uses(state.RoleRouted); !slices.Equal(got, want[:1]) {
		t.Errorf("the uses of that role are\n%+v, want\n%+v", got, want[:1])
	}
	if got := f.Roles(); got != all {
		t.Errorf("interfaces have the roles %#x, want %#x", got, all)
	}
	if got := f.NamesFor(state.RolePseudowires | state.RoleRouted); !slices.Equal(got, []string{"x", "y"}) {
		t.Errorf("the names are %q", got)
	}
	empty, _ := config.Load("weft.toml", []byte("[interface.a]\n[one]\n"), sections)
	if got := empty.Uses(all); len(got) != 0 {
		t.Errorf("a section without the list that it must have uses %+v", got)
	}
}
