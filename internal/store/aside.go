package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"weft/internal/store/statefile"
)

// Damaged is where a file was set aside that was damaged, and how.
type Damaged struct {
	Path string // where it is now
	Err  error
}

func (d *Damaged) Error() string {
	return fmt.Sprintf("the file was damaged (%v); it is set aside as %s, and an empty one takes its place", d.Err, d.Path)
}

func (d *Damaged) Unwrap() error { return d.Err }

// setAside renames a file that is damaged, so that an empty one can take its
// place. One file at most is kept of each name. A file that another process holds,
// or that cannot be read, is left alone.
func setAside(path string) (*Damaged, error) {
	if irregular := new(statefile.Damaged); errors.As(statefile.Regular(path), &irregular) {
		return renamed(path, irregular.Err)
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := hold(f); err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	info, err := f.Stat()
	if err != nil || info.Size() == 0 { // bbolt fills an empty one
		return nil, err
	}
	text, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	fault := verify(text)
	if err := unix.Munmap(text); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if fault == nil {
		return nil, nil
	}
	return renamed(path, fault)
}

func renamed(path string, fault error) (*Damaged, error) {
	aside, err := statefile.SetAside(path)
	return &Damaged{aside, fault}, err
}

// hold waits for the lock that bbolt takes, as long as Open does.
func hold(f *os.File) error {
	for end := time.Now().Add(wait); ; time.Sleep(50 * time.Millisecond) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		if time.Now().After(end) {
			return errors.New("another process has it open")
		}
	}
}
