package daemon

import (
	"path/filepath"
	"testing"

	"weft/internal/features"
	"weft/internal/state"
)

// Programs leave out the code for what no section of the file has use for. What
// plans have interfaces do must be what they are loaded for.
func TestProgramsHaveTheCodeForEveryInterfaceOfAPlan(t *testing.T) {
	files, err := filepath.Glob("../../examples/*.toml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d examples: %v", len(files), err)
	}
	var seen state.Roles
	for _, name := range files {
		f, problems, err := Load(name)
		if err != nil || f == nil {
			t.Fatalf("%s: %v %v", name, err, problems)
		}
		facts := state.Facts{Translators: map[string]int{}, LNSes: map[string]int{}}
		for i, n := range f.Names("interface") {
			facts.Links = append(facts.Links, state.LinkFact{
				Index: i + 2, Name: f.Interface(n).Device, MAC: [6]byte{2, 0, 0, 0, 0, byte(i + 1)}, MTU: 1500, XDP: true, XDPTarget: true,
			})
		}
		desired, _ := features.Plan(f, features.Offers(f, facts))
		unused := features.Sizes(f).Unused
		for _, o := range desired {
			p, is := o.(state.IngressEntry)
			if !is {
				continue
			}
			seen |= p.AllRoles() & state.RoleOptional
			if p.AllRoles()&unused != 0 {
				t.Errorf("%s: %s, and its programs are loaded without roles %#x", name, p, unused)
			}
		}
	}
	if seen != state.RoleOptional {
		t.Errorf("the examples have interfaces of roles %#x of %#x only: the test shows little", seen, state.RoleOptional)
	}
}
