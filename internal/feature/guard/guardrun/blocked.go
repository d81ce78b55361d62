package guardrun

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"weft/internal/config"
	"weft/internal/feature/guard"
	"weft/internal/paths"
	"weft/internal/state"
	"weft/internal/store/statefile"
)

// BlockedAt is when that list was changed last: the daemon has it once its
// guard.BlockList is of no earlier time.
func BlockedAt(p paths.Dirs) (time.Time, error) {
	var s unix.Stat_t
	if err := unix.Stat(BlockedFile(p), &s); err != nil {
		return time.Time{}, fmt.Errorf("look at what is blocked: %w", err)
	}
	return time.Unix(s.Mtim.Unix()), nil
}

// SetBlocked changes that list; the daemon sees it within a second. Two
// commands at once wait for each other.
func SetBlocked(p paths.Dirs, change func([]guard.Blocked) ([]guard.Blocked, error)) error {
	dir, err := os.Open(p.Run)
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("weft runs nothing here; weft run FILE starts it")
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", p.Run, err)
	}
	list, err := Blocked(p)
	if err == nil {
		list, err = change(list)
	}
	if err != nil {
		return err
	}
	slices.SortFunc(list, func(a, b guard.Blocked) int { return a.Prefix.Compare(b.Prefix) })
	return statefile.Write(BlockedFile(p), writeNotes(list, time.Now(), statefile.Boottime()))
}

// Check looks at the files that [block] names, for weft check.
func Check(f *config.File) (all []state.Problem) {
	for i, name := range guard.BlockOf(f).Files {
		path := fmt.Sprintf("block.files[%d]", i)
		file, err := statefile.Open(name)
		if err == nil {
			_, err = guard.ReadFile(name, file)
			err = errors.Join(err, file.Close())
		}
		var wrong *guard.Mistakes
		switch {
		case err == nil || errors.Is(err, fs.ErrPermission):
		case errors.As(err, &wrong):
			for _, m := range wrong.List {
				all = append(all, state.Problem{
					Severity: state.Warning, Pos: state.Position{File: name, Line: m.Line, Column: m.Column}, Path: path, What: m.What, Remedy: m.Remedy,
				})
			}
			if more := wrong.All - len(wrong.List); more > 0 {
				all = append(all, state.Problem{
					Severity: state.Warning, Pos: state.Position{File: name}, Path: path, What: fmt.Sprintf("%d more lines have mistakes", more), Remedy: "is it the right file?",
				})
			}
		default:
			all = append(all, state.Problem{
				Severity: state.Warning, Pos: f.Position(path), Path: path, What: err.Error(), Remedy: "create the file, or remove its name from the list",
			})
		}
	}
	return all
}
