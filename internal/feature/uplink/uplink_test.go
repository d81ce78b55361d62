package uplink_test

import (
	"net/netip"
	"testing"
	"time"

	"weft/internal/config"
	"weft/internal/config/configtest"
	"weft/internal/feature/uplink"
	"weft/internal/state"
)

func sections() []config.Section { return append(config.CoreSections(), uplink.Section()) }

func TestPlans(t *testing.T) {
	if n := configtest.Golden(t, "testdata/plan", sections(), uplink.Plan); n < 5 {
		t.Errorf("%d files, want 5 at least", n)
	}
}

func TestEachMistakeGivesItsLine(t *testing.T) {
	if n := configtest.Bad(t, "testdata/bad", sections()); n < 8 {
		t.Errorf("%d files of mistakes, want 8 at least", n)
	}
}

// An uplink is down after enough unanswered rounds in a row, and up after enough
// answered ones; single rounds against the verdict change nothing.
func TestAnUplinkIsJudgedByRoundsInARow(t *testing.T) {
	s := uplink.Settings{Failures: 3, Successes: 2}
	at := time.Unix(1_000_000, 0)
	var j uplink.Judge
	for i, step := range []struct{ answered, down bool }{
		{true, false}, {false, false}, {false, false}, {true, false}, // two of three
		{false, false}, {false, false}, {false, true}, // three
		{true, true}, {false, true}, {true, true}, {true, false},
		{false, false}, {false, false}, {false, true},
	} {
		before := j.Down
		changed := j.Round(s, step.answered, 8*time.Millisecond, at)
		if j.Down != step.down || changed != (before != step.down) {
			t.Fatalf("round %d: down %v, changed %v; want down %v", i+1, j.Down, changed, step.down)
		}
	}
	if j.Rounds != 14 || j.Lost != 9 || j.RTT != 8*time.Millisecond || !j.Since.Equal(at) {
		t.Errorf("the judge counted %+v", j)
	}
}

func TestSettingsAreOfOneFamily(t *testing.T) {
	f, problems := config.Load("weft.toml", []byte("[interface.wan]\ndevice = \"eth0\"\n[uplink.wan]\ngateways = [\"192.0.2.1\", \"fe80::1\"]\nprobe = [\"198.51.100.1\", \"2001:db8::1\", \"198.51.100.2\"]\n"), sections())
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	facts := state.Facts{Links: []state.LinkFact{{Name: "eth0"}}}
	s, ok := uplink.SettingsOf(f, facts, "wan", 0)
	if !ok || len(s.Probe) != 2 || s.Probe[1] != netip.MustParseAddr("198.51.100.2") {
		t.Errorf("IPv4 is probed by %v", s.Probe)
	}
	if s, ok := uplink.SettingsOf(f, facts, "wan", 1); !ok || len(s.Probe) != 1 {
		t.Errorf("IPv6 is probed by %v", s.Probe)
	}
}
