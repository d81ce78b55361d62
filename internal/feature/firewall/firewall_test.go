package firewall_test

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weft/internal/config"
	"weft/internal/config/configtest"
	"weft/internal/feature/firewall"
	"weft/internal/state"
)

func sections() []config.Section { return append(config.CoreSections(), firewall.Sections()...) }

func TestPlans(t *testing.T) {
	if n := configtest.Golden(t, "testdata/plan", sections(), firewall.Plan); n < 4 {
		t.Errorf("%d files, want 4 at least", n)
	}
}

func TestEachMistakeGivesItsLine(t *testing.T) {
	if n := configtest.Bad(t, "testdata/bad", sections()); n < 15 {
		t.Errorf("%d files of mistakes, want 15 at least", n)
	}
}

// The table of each file is the one beside it, and nft takes it as it is.
func TestRulesets(t *testing.T) {
	files, err := filepath.Glob("testdata/plan/*.toml")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			f, problems := config.Load(file, text, sections())
			if state.HasErrors(problems) {
				t.Fatal(problems)
			}
			addresses := map[string][]netip.Prefix{}
			for _, name := range f.Names("interface") {
				addresses[f.Interface(name).Device] = f.Interface(name).Addresses
			}
			got := fmt.Sprintf("table inet weft {\n%s}\n", firewall.Ruleset(f, addresses, []string{"nat64-main", "lns-main"}))
			golden := strings.TrimSuffix(file, ".toml") + ".nft"
			if flag.Lookup("update").Value.String() == "true" {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("the table is\n%s\nwant, by %s,\n%s", got, golden, want)
			}
			c := exec.Command("unshare", "-n", "nft", "-c", "-f", "-")
			c.Stdin = strings.NewReader(got)
			if out, err := c.CombinedOutput(); err != nil {
				t.Errorf("nft refuses it: %v\n%s", err, out)
			}
		})
	}
}

// Only the ports of a forward, pinhole or service are open, and each once.
func TestPortsAreReadAsPeopleWriteThem(t *testing.T) {
	for text, ok := range map[string]bool{"443": true, "5000-5010": true, "0": false, "65536": false, "10-9": false, "": false, "a": false, "1-": false, "-1": false} {
		_, problems := config.Load("weft.toml", []byte(fmt.Sprintf("[interface.a]\n[zone.wan]\ninterfaces = [\"a\"]\n[firewall]\npinholes = [{ name = \"x\", ports = [%q], to = \"::1:0:0:1\" }]\n", text)), sections())
		if got := len(problems) == 0; got != ok {
			t.Errorf("ports = [%q] gives %v", text, problems)
		}
	}
}
