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
	var list []guard.Blocked
	if _, err := statefile.Read(BlockedFile(p), &list); err != nil {
		return nil, fmt.Errorf("read what is blocked: %w", err)
	}
	now := time.Now()
	return slices.DeleteFunc(list, func(b guard.Blocked) bool { return !b.Until.IsZero() && !b.Until.After(now) }), nil
}
