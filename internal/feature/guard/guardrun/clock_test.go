package guardrun

import (
	"net/netip"
	"testing"
	"time"

	"weft/internal/feature/guard"
	"weft/internal/paths"
	"weft/internal/store/statefile"
	"weft/internal/timer/timertest"
)

const year = 365 * 24 * time.Hour

// A block for an hour lasts an hour, whatever the wall clock says meanwhile, also for
// a process that begins after it was set.
func TestABlockLastsWhenTheClockIsSet(t *testing.T) {
	p := netip.MustParsePrefix("192.0.2.1/32")
	now := time.Now()
	noted := writeNotes([]guard.Blocked{{Prefix: p, Until: now.Add(time.Hour)}, {Prefix: p}}, now, 1000)
	for _, jump := range []time.Duration{0, 20 * year, -20 * year} {
		later := timertest.Jumped(now, jump) // the boot clock goes on by a minute
		list := readNotes(noted, later, 1000+int64(time.Minute))
		if left := list[0].Until.Sub(later); left != 59*time.Minute {
			t.Errorf("clock set by %s: %s are left", jump, left)
		}
		if !list[1].Until.IsZero() {
			t.Errorf("the other ends at %s", list[1].Until)
		}
		// a process that runs meanwhile has read it before
		if left := readNotes(noted, now, 1000)[0].Until.Sub(later); left != time.Hour {
			t.Errorf("clock set by %s while it runs: %s are left", jump, left)
		}
	}
}

// The wall clock of the file does not count: one that was written under another clock
// is as if that clock had been set since.
func TestTheFileOfBlocksHoldsTheClockThatCannotBeSet(t *testing.T) {
	dirs := paths.Dirs{Run: t.TempDir()}
	p := netip.MustParsePrefix("192.0.2.1/32")
	until := time.Now().Add(time.Hour).Truncate(time.Second)
	block := func([]guard.Blocked) ([]guard.Blocked, error) { return []guard.Blocked{{Prefix: p, Until: until}}, nil }
	if err := SetBlocked(dirs, block); err != nil {
		t.Fatal(err)
	}
	var noted []note
	if _, err := statefile.Read(BlockedFile(dirs), &noted); err != nil || len(noted) != 1 || !noted[0].Until.Equal(until) {
		t.Fatalf("%+v, %v", noted, err)
	}
	noted[0].Until = until.Add(-20 * year)
	if err := statefile.Write(BlockedFile(dirs), noted); err != nil {
		t.Fatal(err)
	}
	list, err := Blocked(dirs)
	if err != nil || len(list) != 1 || !list[0].Until.Equal(until) {
		t.Errorf("%+v, %v; want until %s", list, err, until)
	}
}
