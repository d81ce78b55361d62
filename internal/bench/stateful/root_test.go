package stateful

// This test builds every path, starts every router, and measures everything
// once, briefly and with few sessions. What it measures is nobody's business;
// that packets and bytes come through intact is.

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"weft/internal/bench"
	"weft/internal/bench/rig"
	"weft/internal/lab/netspace"
)

func TestEverySubjectCanBeMeasuredInEveryCase(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("benches need root")
	}
	if err := rig.Need(Needs(nil)...); err != nil {
		t.Fatal(err)
	}
	weft := filepath.Join(t.TempDir(), "weft")
	build := exec.Command("go", "build", "-o", weft, "weft/cmd/weft")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build weft: %v\n%s", err, out)
	}
	m, err := Open(t.Context(), Options{Weft: weft, Seconds: 0.1, Sessions: 3000}, true)
	if err != nil {
		t.Fatal(err)
	}
	b := Bench(0.1)
	results, err := b.Run(t.Context(), m, bench.Options{Rounds: 1})
	if err != nil {
		t.Error(err)
	}
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if want := len(b.Cases)*4 - 4; err == nil && len(results) != want {
		t.Errorf("%d results, want %d", len(results), want)
	}
	for _, r := range results {
		if r.Median <= 0 {
			t.Errorf("%s of %s is %v %s", r.Case, r.Subject, r.Median, r.Unit)
		}
	}
	if left, err := netspace.List(fmt.Sprintf("bench-%d-", os.Getpid())); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestEveryBarAndLimitIsAboutCasesAndSubjectsThatThereAre(t *testing.T) {
	b := Bench(1)
	about := map[string][]string{}
	for _, bar := range b.Bars {
		about[bar.Case] = append(about[bar.Case], bar.Subject, bar.Of)
	}
	for _, l := range b.Limits {
		about[l.Case] = append(about[l.Case], l.Subject)
	}
	for c, subjects := range about {
		for _, s := range subjects {
			if _, err := b.Plan(bench.Options{Rounds: 1, Cases: []string{c}, Subjects: []string{s}}); err != nil {
				t.Error(err)
			}
		}
	}
}
