package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// Log is blocks in the order of their times, in a file: what is appended is on
// the disk when Append returns. It is safe for concurrent use.
type Log struct {
	db   *bolt.DB
	most int64 // bytes
	// Damaged says that the file that was there is set aside; nil: it was sound.
	Damaged *Damaged
}

func logBucket() []byte { return []byte("blocks") }

// fill: blocks come in order, so pages are filled to the end.
const fill = 1.0

// OpenLog opens a log that keeps at most so many bytes, or makes it. One that is
// damaged is set aside first.
func OpenLog(path string, most int64) (*Log, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("make directory for %s: %w", path, err)
	}
	damaged, err := setAside(path)
	if err != nil {
		return nil, err
	}
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: wait})
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(logBucket())
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("prepare %s: %w", path, err), db.Close())
	}
	return &Log{db, most, damaged}, nil
}

// ReadLog opens a log that is there, to look at.
func ReadLog(path string) (*Log, error) {
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: wait, ReadOnly: true})
	var about *fs.PathError // which says the path itself
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, fmt.Errorf("%s is in use: weft run has it open", path)
	case errors.As(err, &about):
		return nil, fmt.Errorf("read log: %w", err)
	case err != nil:
		return nil, fmt.Errorf("read log: %s is not a log file: %w", path, err)
	}
	return &Log{db: db}, nil
}

// Append adds a block, a moment after the last one if its time is not later,
// and forgets those from before a time, and the oldest while there are too
// many bytes.
func (l *Log) Append(time uint64, block []byte, before uint64) error {
	err := l.db.Update(func(tx *bolt.Tx) error {
		b := tx.Bucket(logBucket())
		b.FillPercent = fill
		c := b.Cursor()
		if last, _ := c.Last(); last != nil {
			time = max(time, binary.BigEndian.Uint64(last)+1)
		}
		if err := b.Put(binary.BigEndian.AppendUint64(nil, time), block); err != nil {
			return err
		}
		return l.trim(tx, before)
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", l.db.Path(), err)
	}
	return nil
}

// trim deletes from the oldest on. What pages hold is the file's size less
// those that are free; the file itself does not shrink.
func (l *Log) trim(tx *bolt.Tx, before uint64) error {
	used := tx.Size() - int64(l.db.Stats().FreePageN)*int64(os.Getpagesize())
	c := tx.Bucket(logBucket()).Cursor()
	for k, v := c.First(); k != nil; k, v = c.First() {
		if binary.BigEndian.Uint64(k) >= before && used <= l.most {
			return nil
		}
		if last, _ := c.Last(); last == nil || string(last) == string(k) {
			return nil // the newest stays: it says where we were
		}
		c.First()
		used -= int64(len(v))
		if err := c.Delete(); err != nil {
			return err
		}
	}
	return nil
}

// Forward returns the blocks of a time and later, oldest first, as long as see
// wants more.
func (l *Log) Forward(from uint64, see func(time uint64, block []byte) bool) error {
	return l.read(func(c *bolt.Cursor) {
		for k, v := c.Seek(binary.BigEndian.AppendUint64(nil, from)); k != nil; k, v = c.Next() {
			if !see(binary.BigEndian.Uint64(k), v) {
				return
			}
		}
	})
}

// Backward returns the blocks from before a time, newest first.
func (l *Log) Backward(from uint64, see func(time uint64, block []byte) bool) error {
	return l.read(func(c *bolt.Cursor) {
		before := c.Prev
		if later, _ := c.Seek(binary.BigEndian.AppendUint64(nil, from)); later == nil {
			before = c.Last
		}
		for k, v := before(); k != nil; k, v = c.Prev() {
			if !see(binary.BigEndian.Uint64(k), v) {
				return
			}
		}
	})
}

func (l *Log) read(f func(*bolt.Cursor)) error {
	err := l.db.View(func(tx *bolt.Tx) error {
		if b := tx.Bucket(logBucket()); b != nil {
			f(b.Cursor())
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read %s: %w", l.db.Path(), err)
	}
	return nil
}

// Close closes the file.
func (l *Log) Close() error { return l.db.Close() }
