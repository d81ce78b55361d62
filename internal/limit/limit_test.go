package limit_test

import (
	"testing"
	"time"

	"weft/internal/limit"
)

// often takes n tokens every step for a while, and counts how often it could.
func often(take func(float64, limit.Rate, time.Time) bool, n float64, r limit.Rate, from time.Time, step, long time.Duration) (count int, end time.Time) {
	for end = from; end.Before(from.Add(long)); end = end.Add(step) {
		if take(n, r, end) {
			count++
		}
	}
	return count, end
}

func TestABucketGivesItsBurstAndThenItsRate(t *testing.T) {
	var b limit.Bucket
	rate, start := limit.Rate{PerSecond: 10, Burst: 20}, time.Unix(1000, 0)
	count, end := often(b.Take, 1, rate, start, 0+time.Millisecond, time.Second)
	if count != 29 { // the tenth that comes in this second is there at its end
		t.Errorf("%d in the first second, want 20 and 9", count)
	}
	if count, end = often(b.Take, 1, rate, end, time.Millisecond, 10*time.Second); count < 99 || count > 101 {
		t.Errorf("%d in ten seconds, want 100", count)
	}
	// an hour fills it, and no more
	end = end.Add(time.Hour)
	if count, _ = often(b.Take, 1, rate, end, time.Nanosecond, time.Microsecond); count != 20 {
		t.Errorf("%d at once after an hour, want 20", count)
	}
}

func TestABucketWithoutARateGivesNothing(t *testing.T) {
	var b limit.Bucket
	if count, _ := often(b.Take, 1, limit.Rate{}, time.Unix(1000, 0), time.Second, time.Hour); count != 0 {
		t.Errorf("%d, want none", count)
	}
	if !b.Take(1, limit.Rate{PerSecond: 1, Burst: 1}, time.Unix(9000, 0)) {
		t.Error("it gives nothing when it has got a rate")
	}
}

func TestADebtIsPaidBeforeTheNextOne(t *testing.T) {
	var b limit.Bucket
	rate, start := limit.Rate{PerSecond: 1000, Burst: 1000}, time.Unix(1000, 0)
	if b.Take(1500, rate, start) {
		t.Error("more is taken than is there")
	}
	if !b.Overdraw(1500, rate, start) || b.Overdraw(1, rate, start) {
		t.Error("want one that goes beyond what is there, and none after it")
	}
	if b.Overdraw(1, rate, start.Add(499*time.Millisecond)) || !b.Overdraw(1, rate, start.Add(501*time.Millisecond)) {
		t.Error("want the debt of 500 to be paid after half a second")
	}
	// on average it is the rate
	count, _ := often(b.Overdraw, 700, rate, start.Add(time.Second), 10*time.Millisecond, 70*time.Second)
	if count < 100 || count > 102 {
		t.Errorf("%d times 700 in 70 seconds at 1000 a second, want 100", count)
	}
}

func TestALowerRateDoesNotPayForAHigherOne(t *testing.T) {
	var b limit.Bucket
	start := time.Unix(1000, 0)
	if !b.Overdraw(1e6, limit.Rate{PerSecond: 1e6, Burst: 1e6}, start) {
		t.Fatal("a full bucket gives nothing")
	}
	slow := limit.Rate{PerSecond: 10, Burst: 20}
	if !b.Overdraw(1, slow, start.Add(time.Millisecond)) {
		t.Error("in debt, and would be for a day")
	}
	if b.Take(2, slow, start.Add(2*time.Millisecond)) {
		t.Error("it is full again")
	}
}

func TestAClockThatGoesBackTakesNothingAway(t *testing.T) {
	var b limit.Bucket
	rate, start := limit.Rate{PerSecond: 1, Burst: 2}, time.Unix(1000, 0)
	if !b.Take(1, rate, start) || !b.Take(1, rate, start.Add(-time.Hour)) || b.Take(1, rate, start.Add(-time.Hour)) {
		t.Error("want the two that were there")
	}
	if !b.Take(1, rate, start.Add(-time.Hour+time.Second)) {
		t.Error("it waits for the hour to come again")
	}
}

func TestAPolicerPassesItsRateAndCountsTheRest(t *testing.T) {
	var p limit.Policer
	const rate = 8_000_000 // 1 MB/s
	now, passed, refused := time.Unix(1000, 0), 0, uint64(0)
	for range 5000 { // 2 MB/s for 5 s
		now = now.Add(time.Millisecond)
		for range 2 {
			if p.Pass(rate, 1000, now) {
				passed += 1000
			} else {
				refused++
			}
		}
	}
	if passed < 5_000_000 || passed > 5_110_000 || p.Dropped != refused {
		t.Errorf("%d bytes passed, %d packets are counted as dropped, want %d", passed, p.Dropped, refused)
	}
	if !p.Pass(0, 1<<30, now) {
		t.Error("without a rate a packet is dropped")
	}
}
