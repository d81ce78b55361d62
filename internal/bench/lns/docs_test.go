package lns

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"testing"

	"weft/internal/bench"
	"weft/internal/bench/benchtest"
)

// From when a result is published on, all that shows it is made of it.
func TestThePublishedTableAndChartAreMadeFromThePublishedResult(t *testing.T) {
	page, err := os.ReadFile("../../../docs/benchmarks/lns.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := bytes.Contains(page, []byte("(lns.json)"))
	if _, err := os.Stat("../../../docs/benchmarks/lns.json"); errors.Is(err, fs.ErrNotExist) {
		if shown {
			t.Error("lns.md points to a result that is not there")
		}
		return
	}
	if !shown {
		t.Error("lns.md does not show the result that there is")
	}
	b := Bench(bench.DefaultSeconds)
	benchtest.Published(t, b, benchtest.All(t, b))
}

func TestThePageSaysWhatIsMeasuredAndWhatWeftIsHeldTo(t *testing.T) {
	benchtest.Page(t, Bench(bench.DefaultSeconds))
}

func TestEveryBarIsAboutCasesAndSubjectsThatThereAre(t *testing.T) {
	b := Bench(1)
	for _, bar := range b.Bars {
		for _, s := range []string{bar.Subject, bar.Of} {
			if s == "" {
				continue
			}
			if _, err := b.Plan(bench.Options{Rounds: 1, Cases: []string{bar.Case}, Subjects: []string{s}}); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestMemoryIsAddedUp(t *testing.T) {
	smaps := "00400000-02000000 r-xp 00000000 fe:00 1 /usr/bin/weft\nRss:  100 kB\n7f00-7f10 rw-s 0 00:0e 2 anon_inode:bpf-map\nRss:  4000 kB\n" +
		"7f20-7f30 r--s 0 00:0e 3 /run/weft/1/subscribers.db\nRss:  300 kB\nc000-d000 rw-p 0 00:00 0\nRss:  7 kB\n"
	if n, err := resident(smaps); n != 107<<10 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

func TestNumbersAreWrittenAsPeopleDo(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 12300: "12,300", 1000005: "1,000,005"} {
		if got := thousands(n); got != want {
			t.Errorf("%d is written %s, not %s", n, got, want)
		}
	}
}
