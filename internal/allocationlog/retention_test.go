package allocationlog

import (
	"testing"
	"time"

	"weft/internal/state"
	"weft/internal/timer/timertest"
)

const (
	day  = 24 * time.Hour
	keep = 30 * day
)

// ages is a store that notes what it is to delete.
type ages struct {
	blocks
	before uint64
}

func (s *ages) Append(at uint64, block []byte, before uint64) error {
	s.before = before
	return s.blocks.Append(at, block, before)
}

func (s *ages) deletes(t *testing.T, what string, a *Log, now time.Time, want time.Time) {
	t.Helper()
	if err := a.Add(now, Marks{}, []state.BindingEvent{}); err != nil {
		t.Fatal(err)
	}
	if want.IsZero() != (s.before == 0) || !want.IsZero() && s.before != uint64(want.UnixNano()) {
		t.Errorf("%s: entries before %s are deleted, want %s", what, time.Unix(0, int64(s.before)).UTC(), want.UTC())
	}
}

func TestNothingIsDeletedBecauseTheClockWasSet(t *testing.T) {
	now := time.Now()
	s := &ages{}
	a := New(s, keep)
	s.deletes(t, "an empty log", a, now, now.Add(-keep))
	s.deletes(t, "an hour later", a, now.Add(time.Hour), now.Add(time.Hour-keep))
	ahead := func(d time.Duration) time.Time { return timertest.Jumped(now.Add(d), 3650*day) }
	s.deletes(t, "set ten years ahead", a, ahead(2*time.Hour), time.Time{})
	s.deletes(t, "23 hours after that", a, ahead(25*time.Hour), time.Time{})
	s.deletes(t, "set back", a, now.Add(25*time.Hour), time.Time{})
	s.deletes(t, "a day later", a, now.Add(49*time.Hour), now.Add(49*time.Hour-keep))
}

func TestNothingIsDeletedByAClockThatBeginsIn1970(t *testing.T) {
	s := &ages{}
	now := time.Now()
	New(s, keep).Add(now, Marks{}, nil)
	early := time.Unix(100, 0)
	s.deletes(t, "the clock is not set yet", New(s, keep), early, time.Time{})
	// and by one that is far ahead when weft starts
	s.deletes(t, "the clock is years ahead", New(s, keep), now.Add(3650*day), time.Time{})
}

func TestLayoutsStayWhenTheClockIsNotSet(t *testing.T) {
	r := retention{keep: keep}
	if before := r.oldest(time.Unix(100, 0), time.Time{}); before != 0 {
		t.Errorf("before 1970 is %d", before)
	}
}
