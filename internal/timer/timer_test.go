package timer

import (
	"slices"
	"testing"
	"time"
)

type alarm struct {
	name  string
	at    time.Time
	slot  Slot
	fired *[]string
}

func (a *alarm) Due() time.Time { return a.at }
func (a *alarm) Slot() *Slot    { return &a.slot }
func (a *alarm) Tick(time.Time) { *a.fired = append(*a.fired, a.name) }

func TestTicksComeInTheOrderOfTheirTimes(t *testing.T) {
	var q Queue
	var fired []string
	start := time.Unix(1000, 0)
	one := func(name string, after time.Duration) *alarm {
		a := &alarm{name: name, at: start.Add(after), fired: &fired}
		q.Arm(a)
		return a
	}
	late, early, never, moved := one("late", 3*time.Second), one("early", time.Second), one("never", 2*time.Second), one("moved", 4*time.Second)
	moved.at = start.Add(2 * time.Second)
	q.Arm(moved)
	never.at = time.Time{}
	q.Arm(never)
	if !q.Due().Equal(early.at) {
		t.Errorf("the first is due at %v", q.Due())
	}
	q.Tick(start.Add(2 * time.Second))
	if want := []string{"early", "moved"}; !slices.Equal(fired, want) || !q.Now().Equal(start.Add(2*time.Second)) {
		t.Errorf("%v have fired, want %v", fired, want)
	}
	q.Disarm(late)
	q.Disarm(late)
	if !q.Due().IsZero() || q.Len() != 0 {
		t.Errorf("something is due at %v", q.Due())
	}
}

func TestEarliestIgnoresZeroTimes(t *testing.T) {
	a, b := time.Unix(1, 0), time.Unix(2, 0)
	if got := Earliest(time.Time{}, b, a); !got.Equal(a) || !Earliest().IsZero() {
		t.Errorf("the earliest is %v", got)
	}
}
