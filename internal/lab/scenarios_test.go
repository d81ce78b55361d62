package lab

// Every scenario of the program is a test. They run beside each other, but those that
// hold weft to times and rates, which are alone. What a scenario needs it says itself,
// with the Debian package that has it.

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"
)

// alone reports whether a scenario measures times or rates: by a check that bounds a
// silence, or within programs of its own.
func alone(name string, s *Scenario) bool {
	return slices.Contains([]string{"attack", "lns-storm", "offload-attack", "offload-change"}, name) ||
		slices.ContainsFunc(s.Checks, func(c Check) bool { return c.Within > 0 })
}

// proved are the scenarios that hold times, on a machine that does nothing else: make
// prove runs them. make test checks that they are well-formed.
func proved() []string { return []string{"attack"} }

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
		if slices.Contains(proved(), src.Name) && os.Getenv("WEFT_PROVE") == "" {
			continue
		}
		t.Run(src.Name, func(t *testing.T) {
			if !alone(src.Name, s) {
				beside(t, slices.ContainsFunc(s.Nodes, func(n Node) bool { return n.Kind == QEMU }))
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

// needJool skips where Jool is not, and cannot be installed either: the report
// of all tests knows which of the two it is.
func needJool(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("jool_siit"); err != nil {
		t.Skip("jool-dkms is not installed")
	}
}
