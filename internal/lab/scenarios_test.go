package lab

// Every scenario of the program is a test. Those of namespaces run beside each
// other; guests take a machine's worth of memory each, so they do not. What a
// scenario needs it says itself, with the Debian package that has it.

import (
	"fmt"
	"os/exec"
	"testing"
)

func TestEveryScenarioOfTheProgramPasses(t *testing.T) {
	weft := program(t)
	sources, err := Embedded()
	if err != nil {
		t.Fatal(err)
	}
	for i, src := range sources {
		s, err := Parse(src)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(src.Name, func(t *testing.T) {
			if !hasGuest(s) {
				t.Parallel()
			}
			if src.Name == "jool" || src.Name == "jool-cases" {
				needJool(t)
			}
			lab := name(t, fmt.Sprint("s", i))
			if out, err := exec.Command(weft, "lab", "run", src.Name, "--name", lab).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		})
	}
}

func hasGuest(s *Scenario) bool {
	for _, n := range s.Nodes {
		if n.Kind != "" && n.Kind != Namespace {
			return true
		}
	}
	return false
}

// needJool skips where Jool is not, and cannot be installed either: the report
// of all tests knows which of the two it is.
func needJool(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("jool_siit"); err != nil {
		t.Skip("jool-dkms is not installed")
	}
}
