package nat64_test

import (
	"fmt"
	"strings"
	"testing"

	"weft/internal/config"
	"weft/internal/config/configtest"
	"weft/internal/feature/nat64"
	"weft/internal/state"
)

func TestPlans(t *testing.T) {
	if n := configtest.Golden(t, "testdata/plan", sections(), nat64.Plan); n < 10 {
		t.Errorf("%d files, want 10 at least", n)
	}
}

func TestTheSixtyFifthTranslatorIsRefused(t *testing.T) {
	var text strings.Builder
	text.WriteString("[interface.lan]\n")
	for i := range 65 {
		fmt.Fprintf(&text, "[nat64.t%02d]\nmode = \"stateless\"\ninterfaces = [\"lan\"]\nmappings = [{ ipv6 = \"2001:db8:%x::1\", ipv4 = \"198.18.0.%d\" }]\n", i, i+1, i+1)
	}
	f, problems := config.Load("weft.toml", []byte(text.String()), sections())
	if state.HasErrors(problems) {
		t.Fatal(problems)
	}
	part := nat64.Plan(f, state.Facts{Links: []state.LinkFact{{Name: "lan", Index: 2}}})
	desired, problems := part.Objects, part.Problems
	ids := map[int]bool{}
	for _, o := range desired {
		if tr, ok := o.(state.Translator); ok {
			if tr.ID < 0 || tr.ID > 63 || ids[tr.ID] {
				t.Errorf("%s has id %d, which is taken or too large", tr.Name, tr.ID)
			}
			ids[tr.ID] = true
		}
	}
	if len(ids) != 64 || len(problems) != 1 || problems[0].Path != "nat64.t64" {
		t.Errorf("%d translators are planned, with the problems %v", len(ids), problems)
	}
}

// The slow path and the programs clamp to the same value.
func TestTheReferenceClampsAsTheProgramsDo(t *testing.T) {
	f, c := load(t, network+`
[nat64.main]
mode = "stateless"
interfaces = ["lan", "wan"]
prefix = "64:ff9b:1::/96"
translatable = ["192.0.2.0/24"]
tcp_mss_clamp = true
`)
	facts := state.Facts{Links: []state.LinkFact{{Name: "lan", Index: 2, MTU: 1492}, {Name: "wan", Index: 3, MTU: 9000}}}
	for _, o := range nat64.Plan(f, facts).Objects {
		if tr, ok := o.(state.Translator); ok {
			if got := c.Reference(f, facts).MaxMSS; got != tr.MaxMSS || got != 1492-60 {
				t.Errorf("the reference clamps to %d, the programs to %d", got, tr.MaxMSS)
			}
		}
	}
}
