package spacetest

import (
	"os/exec"
	"strings"
	"testing"

	"weft/internal/lab/netspace"
)

// Batch runs lines by `ip -batch`; a line that begins with -6 is for `ip -6`.
func Batch(t *testing.T, space *netspace.Space, lines ...string) {
	t.Helper()
	texts := map[string]string{}
	for _, l := range lines {
		flag := "-0"
		if rest, six := strings.CutPrefix(l, "-6 "); six {
			flag, l = "-6", rest
		}
		texts[flag] += l + "\n"
	}
	for flag, text := range texts {
		c := exec.Command("ip", "-batch", "-")
		if flag == "-6" {
			c = exec.Command("ip", "-6", "-batch", "-")
		}
		var complaint strings.Builder
		c.Stdin, c.Stderr = strings.NewReader(text), &complaint
		if err := space.Start(c); err != nil {
			t.Fatal(err)
		}
		if err := c.Wait(); err != nil {
			t.Fatalf("%s: %v\n%s", text, err, &complaint)
		}
	}
}
