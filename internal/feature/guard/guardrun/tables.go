// Package guardrun is the half of the guards that touches the system.
package guardrun

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"weft/internal/datapath/guardtable"
	"weft/internal/feature/guard"
	"weft/internal/paths"
	"weft/internal/runner"
	"weft/internal/store/statefile"
)

// Tables are what the nouns of guards are read from.
type Tables struct {
	guardtable.Table
	Dirs paths.Dirs
}

// Source returns what the nouns of the maps are read from.
func Source(d runner.Doors) any { return Tables{Table: guardtable.Of(d.Datapath), Dirs: d.Paths} }

// Blocked lists the sources that weft block has blocked.
func (t Tables) Blocked() ([]guard.Blocked, error) { return Blocked(t.Dirs) }

// BlockedFile is where they are noted.
func BlockedFile(p paths.Dirs) string { return filepath.Join(p.Run, "blocked.json") }

// Blocked lists the sources that weft block has blocked.
func Blocked(p paths.Dirs) ([]guard.Blocked, error) {
	var noted []note
	if _, err := statefile.Read(BlockedFile(p), &noted); err != nil {
		return nil, fmt.Errorf("read what is blocked: %w", err)
	}
	now := time.Now()
	list := readNotes(noted, now, statefile.Boottime())
	list = slices.DeleteFunc(list, func(b guard.Blocked) bool { return !b.Until.IsZero() && !b.Until.After(now) })
	for i := range list {
		list[i].Until = list[i].Until.Round(time.Second)
	}
	return list, nil
}

// note is a blocked source in the file. A reboot removes the file, so the end is
// kept by the clock that cannot be set: until is for who reads the file.
type note struct {
	guard.Blocked
	Ends int64 `json:"ends_boottime_ns,omitempty"` // 0: until it is taken back
}

func writeNotes(list []guard.Blocked, now time.Time, boottime int64) []note {
	noted := make([]note, 0, len(list))
	for _, b := range list {
		n := note{Blocked: b}
		if !b.Until.IsZero() {
			n.Ends = boottime + int64(b.Until.Sub(now))
		}
		noted = append(noted, n)
	}
	return noted
}

// readNotes returns what is in the file, with ends by the present wall clock.
func readNotes(noted []note, now time.Time, boottime int64) []guard.Blocked {
	list := make([]guard.Blocked, 0, len(noted))
	for _, n := range noted {
		if n.Ends != 0 {
			n.Until = now.Add(time.Duration(n.Ends - boottime))
		}
		list = append(list, n.Blocked)
	}
	return list
}
