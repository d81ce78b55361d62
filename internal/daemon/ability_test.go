package daemon

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weft/internal/testbin"
)

// The errors of a process without a capability name it, at check and at run.
func TestCheckAndRunNameTheMissingCapability(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	if _, err := exec.LookPath("setpriv"); err != nil {
		t.Skip("setpriv is not there")
	}
	file := filepath.Join(t.TempDir(), "weft.toml")
	if err := os.WriteFile(file, []byte("[router]\nforwarding = true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ without, want string }{
		{"-bpf,-sys_admin", "lacks CAP_BPF"},
		{"-net_admin", "lacks CAP_NET_ADMIN"},
	} {
		for _, verb := range []string{"check", "run"} {
			out, err := exec.Command("unshare", "--net", "setpriv", "--bounding-set", c.without, "--inh-caps", c.without, testbin.Weft(t), verb, file).CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || !strings.Contains(string(out), c.want) || !strings.Contains(string(out), "CapabilityBoundingSet=") {
				t.Errorf("weft %s without %s: %v\n%s", verb, c.without, err, out)
			}
		}
	}
}
