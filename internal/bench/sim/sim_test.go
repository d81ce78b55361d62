package sim

import (
	"os/exec"
	"strings"
	"testing"

	"weft/schedule"
)

func TestEverySchedulerIsMeasured(t *testing.T) {
	b := Bench()
	for _, name := range append(schedule.Routers(), schedule.Orders()...) {
		v, err := Measurer{}.Measure(t.Context(), decide+name, Weft)
		if err != nil || v <= 0 {
			t.Errorf("%s: %f ns, %v", name, v, err)
		}
		if b.Fits(decide+name, Salabim) {
			t.Errorf("salabim has no %s", name)
		}
	}
}

func TestAnInterpreterWithoutSalabimSaysWhatToDo(t *testing.T) {
	if _, err := (Measurer{Python: "/nowhere/python3"}).Measure(t.Context(), packets, Salabim); err == nil || !strings.Contains(err.Error(), "tools/salabim.sh") {
		t.Errorf("error is %v", err)
	}
}

func TestTheModelIsPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 here")
	}
	c := exec.CommandContext(t.Context(), python, "-c", "import ast, sys; ast.parse(sys.stdin.read())")
	c.Stdin = strings.NewReader(model)
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
