package allocationlog

import "time"

const (
	// settleTime is how long nothing is deleted for its age after the clock was set
	// forward: the clock may be wrong, and what is deleted does not come back.
	settleTime = 24 * time.Hour
	// jumpLeast is by how much a clock must be set: less is what NTP does all the time.
	jumpLeast = time.Minute
)

// retention decides what is too old to be kept.
type retention struct {
	keep    time.Duration
	last    time.Time // of the last decision
	settles time.Time
}

// oldest returns from when on entries are kept; newest is the time of the newest
// entry, zero if that is not known. The clock counts as set forward if it has gone
// ahead of the one that cannot be set, and at the start if all entries are too old.
func (r *retention) oldest(now, newest time.Time) uint64 {
	jumped := now.Round(0).Sub(r.last.Round(0))-now.Sub(r.last) > jumpLeast
	if r.last.IsZero() {
		jumped = !newest.IsZero() && newest.Before(now.Add(-r.keep))
	}
	r.last = now
	if jumped {
		r.settles = now.Add(settleTime)
	}
	if now.Before(r.settles) {
		return 0
	}
	return nanoseconds(now.Add(-r.keep))
}

// nanoseconds is a time as the store wants it. Times before 1970 are none: a machine
// without a battery for its clock begins there, and keep is subtracted.
func nanoseconds(t time.Time) uint64 {
	if t.Before(time.Unix(0, 0)) {
		return 0
	}
	return uint64(t.UnixNano())
}
