package nat64

// This test builds every path, starts every router, and measures everything
// once and briefly. What it measures is nobody's business; that packets and
// bytes come through intact is.

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
	if err := rig.Need(Needs(nil, nil)...); err != nil {
		t.Fatal(err)
	}
	weft := filepath.Join(t.TempDir(), "weft")
	build := exec.Command("go", "build", "-o", weft, "weft/cmd/weft")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build weft: %v\n%s", err, out)
	}
	m, err := Open(t.Context(), Options{Weft: weft, Seconds: 0.1})
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
	if want := 8*7 + 2*4; err == nil && len(results) != want {
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

func TestEveryBarIsAboutCasesAndSubjectsThatThereAre(t *testing.T) {
	b := Bench(1)
	for _, bar := range b.Bars {
		for _, s := range []string{bar.Subject, bar.Of} {
			if _, err := b.Plan(bench.Options{Rounds: 1, Cases: []string{bar.Case}, Subjects: []string{s}}); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestOnlyTheProgramsThatAreUsedAreNeeded(t *testing.T) {
	names := func(cases, subjects []string) (list []string) {
		for _, p := range Needs(cases, subjects) {
			list = append(list, p.Name)
		}
		return list
	}
	for _, c := range []struct{ cases, subjects, want []string }{
		{nil, nil, []string{"nft", "iperf3", "tayga"}},
		{[]string{"pps64-6to4"}, []string{"weft-tc"}, []string{"nft"}},
		{[]string{"tcp1-6to4"}, []string{"tayga"}, []string{"nft", "iperf3", "tayga"}},
	} {
		if got := names(c.cases, c.subjects); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%v of %v need %v, want %v", c.cases, c.subjects, got, c.want)
		}
	}
}
