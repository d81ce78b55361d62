// Package statefile keeps a value in a JSON file for the next process. A file
// is replaced in one step: after a kill or a loss of power at any moment the
// old content is there, or the new one.
package statefile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"weft/internal/fault"
)

// Damaged is the error about a file that is there and cannot be understood.
type Damaged struct {
	Path string
	Err  error
}

func (d *Damaged) Error() string {
	return fmt.Sprintf("%s is damaged: %v; remove it, weft then starts without what it held", d.Path, d.Err)
}

func (d *Damaged) Unwrap() error { return d.Err }

// Read reads the value of a file. It leaves value alone and gives false if there
// is no such file, and leaves it alone if the error is Damaged.
func Read[T any](path string, value *T) (found bool, err error) {
	text, err := content(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err // it names the path
	}
	var fresh T
	if err := json.Unmarshal(text, &fresh); err != nil {
		return true, &Damaged{path, err}
	}
	*value = fresh
	return true, nil
}

// errNotAFile is the damage of a path at which something else lies: a directory, a
// FIFO, whose reader would wait for ever, or a link that leads nowhere.
var errNotAFile = errors.New("it is no regular file")

// content reads a file. Whatever else has its path is Damaged.
func content(path string) ([]byte, error) {
	if err := Regular(path); err != nil {
		return nil, err
	}
	return Text(path)
}

// Regular returns Damaged if something other than a file lies at a path; nothing may.
func Regular(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err = os.Lstat(path); err == nil {
			return &Damaged{path, fmt.Errorf("%w but a link to a file that is missing", errNotAFile)}
		}
		return nil
	}
	switch {
	case errors.Is(err, unix.ELOOP):
		return &Damaged{path, err}
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return &Damaged{path, fmt.Errorf("%w (%v)", errNotAFile, info.Mode().Type())}
	}
	return nil
}

// Open opens a regular file to read. Anything else at its path is an error at once: a
// FIFO would be waited for.
func Open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err // it names the path
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("open %s: %w (%v)", path, errNotAFile, info.Mode().Type())
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Text reads a regular file, as Open does.
func Text(path string) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(f)
	return text, errors.Join(err, f.Close())
}

// SetAside renames what is damaged, so that a file can take its place, and returns
// the path at which it is kept. A file of an earlier time that was set aside is
// replaced, anything else gets another name.
func SetAside(path string) (kept string, err error) {
	kept = path + ".damaged"
	for n := 2; ; n++ {
		info, err := os.Lstat(kept)
		old := err == nil && info.Mode().IsRegular() && Regular(path) == nil
		if errors.Is(err, fs.ErrNotExist) || old {
			return kept, os.Rename(path, kept)
		}
		if err != nil {
			return "", err
		}
		kept = fmt.Sprintf("%s.damaged-%d", path, n)
	}
}

// Cache is Read for what can be learned again: a file that is damaged counts as
// absent, and is kept beside, with .damaged behind its name.
func Cache[T any](path string, value *T) (found bool, err error) {
	found, err = Read(path, value)
	var damaged *Damaged
	if !errors.As(err, &damaged) {
		return found, err
	}
	kept, err := SetAside(path)
	if err != nil && (errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS)) {
		kept, err = path, nil
	}
	slog.Warn("a state file was damaged; its content is learned again", "file", path, "error", damaged.Err, "kept", kept)
	return false, err
}

// Write replaces the value of a file. Two writers of one file take turns.
func Write(path string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return replace(path, append(text, '\n'), nil)
}

// step is a moment between two of the actions that replace a file.
type step string

const (
	begun   step = "begun" // the draft is there, and empty
	written step = "written"
	synced  step = "synced"
	renamed step = "renamed"
)

// replace writes a draft and renames it. A test is called at each step, and may
// end the process there or give an error.
func replace(path string, text []byte, at func(step) error) error {
	if at == nil {
		at = func(s step) error { pass(s, path); return nil }
	}
	draft := path + ".new"
	if err := write(draft, text, at); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), ignoreMissing(os.Remove(draft)))
	}
	if err := os.Rename(draft, path); err != nil {
		return err // it names both paths
	}
	if err := at(renamed); err != nil {
		return err
	}
	return syncDirectory(filepath.Dir(path))
}

// pass is where a test may end a process that replaces one of its files.
func pass(s step, path string) {
	switch s {
	case synced:
		fault.At(fault.StateDrafted, path)
	case renamed:
		fault.At(fault.StateReplaced, path)
	}
}

// write leaves the text on the disk.
func write(draft string, text []byte, at func(step) error) error {
	f, err := os.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if err = at(begun); err == nil {
		_, err = f.Write(text)
	}
	if err == nil {
		err = at(written)
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = at(synced)
	}
	return errors.Join(err, f.Close())
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// syncDirectory leaves the names of a directory on the disk.
func syncDirectory(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
