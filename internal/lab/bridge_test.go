package lab

// Bridges for guests. The scenarios need Debian packages: user-mode-linux, and
// for isolation-vlan qemu-system-x86, linux-image-6.12-amd64, busybox-static.

import (
	"os/exec"
	"testing"
)

func TestTheBridgeScenariosPass(t *testing.T) {
	for _, scenario := range []string{"isolation", "isolation-vlan", "uml-raw", "uml-tap"} {
		t.Run(scenario, func(t *testing.T) {
			weft, lab := program(t), name(t, scenario[len(scenario)-3:])
			if out, err := exec.Command(weft, "lab", "run", scenario, "--name", lab).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			nothingLeft(t, lab)
		})
	}
}
