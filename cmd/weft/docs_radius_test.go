package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var orderedAt = regexp.MustCompile(`radclient .* (\S+):3799 `)

// The guide to FreeRADIUS says what the scenario lns-radius tries.
func TestTheGuideToFreeRADIUSIsTheScenario(t *testing.T) {
	scenario, err := os.ReadFile(filepath.Join(repository, "internal/lab/scenarios/lns-radius.toml"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	listen, orders := "", []string{}
	for _, p := range pages(t) {
		if p.name != "docs/guides/freeradius.md" {
			continue
		}
		for _, b := range p.blocks() {
			if b.info == "conf" {
				seen["conf"]++
				if !strings.Contains(string(scenario), b.text) {
					t.Errorf("block at line %d is not what FreeRADIUS has in the scenario", b.line)
				}
				continue
			}
			for line := range strings.Lines(b.text) {
				line = strings.TrimSpace(line)
				if strings.HasPrefix(line, "listen ") {
					listen = line
				}
				if at := orderedAt.FindStringSubmatch(line); at != nil {
					orders = append(orders, at[1])
				}
				tried := strings.HasPrefix(line, "insert ") || strings.HasPrefix(line, "sqlite3 ") || strings.HasPrefix(line, "freeradius ") ||
					strings.Contains(line, ":3799 ") || strings.HasPrefix(line, "lacs ") || strings.HasPrefix(line, "dynamic_authorization ")
				if !tried {
					continue
				}
				seen[strings.Fields(line)[0]]++
				text := strings.NewReplacer("{dir}/", "").Replace(string(scenario))
				if !strings.Contains(text, line) {
					t.Errorf("block at line %d: the scenario does not do\n%s", b.line, line)
				}
			}
		}
	}
	// orders are taken at the addresses of listen alone
	for _, at := range orders {
		if !strings.Contains(listen, `"`+at+`"`) {
			t.Errorf("orders go to %s, and the router listens at %s", at, listen)
		}
	}
	if len(orders) < 2 {
		t.Errorf("the guide has %d orders", len(orders))
	}
	for what, least := range map[string]int{"conf": 1, "insert": 6, "sqlite3": 3, "freeradius": 1, "echo": 2, "lacs": 1} {
		if seen[what] < least {
			t.Errorf("the guide has %d of %s, want %d at least", seen[what], what, least)
		}
	}
}
