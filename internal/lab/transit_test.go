package lab

// The transit scenario needs the Debian package bird2, and says so where it is
// missing.

import (
	"os/exec"
	"testing"
)

func TestTheTransitScenarioPasses(t *testing.T) {
	weft, lab := program(t), name(t, "")
	if out, err := exec.Command(weft, "lab", "run", "transit", "--name", lab).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	nothingLeft(t, lab)
}
