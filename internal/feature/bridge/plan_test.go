package bridge_test

import (
	"testing"

	"weft/internal/config"
	"weft/internal/config/configtest"
	"weft/internal/feature/bridge"
	"weft/internal/state"
)

// sections are also those that take packets from interfaces, as far as bridges
// look at them.
func sections() []config.Section {
	taker := func(name string, named bool, roles state.Roles) config.Section {
		return config.Section{Name: name, Named: named, Roles: roles, Doc: ".", New: func(string) any {
			return &struct {
				Interfaces []string `toml:"interfaces" doc:"."`
			}{}
		}}
	}
	everywhere := config.Section{Name: "lns", Named: true, Roles: state.RoleSubscribers, Doc: ".", New: func(string) any { return &struct{}{} }}
	return append(config.CoreSections(), bridge.Section(), taker("route", false, state.RoleRouted), taker("offload", false, state.RoleOffloaded),
		taker("nat64", true, state.RoleTranslated), taker("pseudowire", true, state.RolePseudowires), everywhere)
}

func TestPlans(t *testing.T) {
	if n := configtest.Golden(t, "testdata/plan", sections(), bridge.Plan); n < 6 {
		t.Errorf("%d files, want 6 at least", n)
	}
}

func TestEachMistakeGivesItsLine(t *testing.T) {
	if n := configtest.Bad(t, "testdata/bad", sections()); n < 8 {
		t.Errorf("%d files of mistakes, want 8 at least", n)
	}
}
