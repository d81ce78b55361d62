package simulate

import (
	"runtime"
	"testing"
	"time"
)

func TestMemoryIsFlatOverAnHour(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	s := pair()
	s.End, s.Keep = time.Hour, 0
	s.Sources = append(s.Sources, Source{Name: "web", Poisson: true, Every: 200 * ms, Size: 50_000, Spread: Exponential})
	m, err := New(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	heap := func() uint64 {
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	for m.now < 5*time.Minute && m.step() {
	}
	early := heap()
	for m.step() {
	}
	late := heap()
	if err := m.conserved(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d packets, %d bytes after five minutes, %d after an hour", m.result().Packets, early, late)
	if m.now != time.Hour || late > early+256<<10 {
		t.Errorf("at %s: %d bytes, after five minutes %d", m.now, late, early)
	}
}
