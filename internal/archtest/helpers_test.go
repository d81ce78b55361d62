package archtest

import (
	"os/exec"
	"strings"
	"testing"
)

// What runs in helper processes is not linked into weft (decision 38).
func TestWeftDoesNotLinkWhatRunsInHelpers(t *testing.T) {
	deps := func(program string) []string {
		out, err := exec.Command("go", "list", "-deps", module+"cmd/"+program).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(out))
	}
	for program, library := range map[string]string{"weft-bus": "github.com/nats-io/nats-server"} {
		links := func(of string) (n int) {
			for _, p := range deps(of) {
				if inside(p, library) {
					n++
				}
			}
			return n
		}
		if links(program) == 0 {
			t.Errorf("%s does not link %s", program, library)
		}
		if n := links("weft"); n != 0 {
			t.Errorf("weft links %d packages of %s, which are for %s", n, library, program)
		}
	}
}
