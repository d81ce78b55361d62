package offload_test

import (
	"testing"

	"weft/internal/config"
	"weft/internal/config/configtest"
	"weft/internal/feature/offload"
	"weft/internal/state"
)

func sections() []config.Section { return append(config.CoreSections(), offload.Section()) }

func TestPlans(t *testing.T) {
	if n := configtest.Golden(t, "testdata/plan", sections(), offload.Plan, offload.Audit); n < 4 {
		t.Errorf("%d files, want 4 at least", n)
	}
}

func TestEachMistakeGivesItsLine(t *testing.T) {
	if n := configtest.Bad(t, "testdata/bad", sections()); n < 6 {
		t.Errorf("%d files of mistakes, want 6 at least", n)
	}
}

func TestAnInterfaceIsRoutedOrOffloaded(t *testing.T) {
	text := `
[router]
forwarding = true
[interface.lan]
[interface.wan]
[offload]
interfaces = ["lan", "wan"]
[route]
interfaces = ["wan"]
`
	route := config.Section{Name: "route", Roles: state.RoleRouted, New: func(string) any {
		return &struct {
			Interfaces []string `toml:"interfaces" doc:"."`
		}{}
	}}
	_, problems := config.Load("weft.toml", []byte(text), append(sections(), route))
	if len(problems) != 1 || problems[0].Path != "offload.interfaces[1]" {
		t.Errorf("problems: %v", problems)
	}
}

func TestRulesInTheWayAreWarnedOf(t *testing.T) {
	f, _ := config.Load("weft.toml", []byte("[interface.lan]\n[interface.wan]\n[offload]\ninterfaces = [\"lan\", \"wan\"]\n"), sections())
	problems := offload.Plan(f, state.Facts{PacketRules: []string{"rule 7 of chain inet fw forward"}}).Problems
	if len(problems) != 1 || problems[0].Severity != state.Warning || problems[0].Path != "offload" {
		t.Errorf("problems: %v", problems)
	}
}

// weft check says that nothing can be offloaded; the table of early_drop makes the kernel
// track connections.
func TestAHostThatTracksNoConnectionsIsWarnedOf(t *testing.T) {
	for early, want := range map[string]int{"": 1, "early_drop = true\n": 0} {
		f, _ := config.Load("weft.toml", []byte("[interface.lan]\n[interface.wan]\n[offload]\ninterfaces = [\"lan\", \"wan\"]\n"+early), sections())
		problems := offload.Plan(f, state.Facts{Untracked: true}).Problems
		if len(problems) != want || want > 0 && (problems[0].Severity != state.Warning || problems[0].Path != "offload" || problems[0].Remedy == "") {
			t.Errorf("%q: problems: %v", early, problems)
		}
	}
}
