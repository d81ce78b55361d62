// Package store is the only door to what must outlive a restart of the machine:
// a small table in a file, safe against loss of power at any moment.
package store

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
)

// File is an open table. It is safe for concurrent use.
type File struct {
	db *bolt.DB
	// Damaged says that the file that was there is set aside; nil: it was sound.
	Damaged *Damaged
}

// wait is how long another process may hold the file.
const wait = 2 * time.Second

// full is how full pages are left that are split: many keys come in order.
const full = 0.9

func bucket() []byte { return []byte("leases") }

// Open opens the file, or makes it with its directory. One that is damaged is set
// aside first.
func Open(path string) (*File, error) { return open(path, bolt.Options{Timeout: wait}) }

// OpenFleeting is Open for a file that need not outlive the machine's life, only
// the process: it lies in memory, and nothing waits for a disk.
func OpenFleeting(path string) (*File, error) {
	return open(path, bolt.Options{Timeout: wait, NoSync: true, NoGrowSync: true, NoFreelistSync: true, FreelistType: bolt.FreelistMapType})
}

func open(path string, o bolt.Options) (*File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("make directory for %s: %w", path, err)
	}
	damaged, err := setAside(path)
	if err != nil {
		return nil, err
	}
	db, err := bolt.Open(path, 0o600, &o)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(bucket())
		return err
	})
	if err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("prepare %s: %w", path, err)
	}
	return &File{db, damaged}, nil
}

// Put keeps a value; it is on the disk when Put returns.
func (f *File) Put(key, value []byte) error {
	err := f.db.Update(func(tx *bolt.Tx) error { return tx.Bucket(bucket()).Put(key, value) })
	if err != nil {
		return fmt.Errorf("write %s: %w", f.db.Path(), err)
	}
	return nil
}

// Delete forgets a value.
func (f *File) Delete(key []byte) error {
	err := f.db.Update(func(tx *bolt.Tx) error { return tx.Bucket(bucket()).Delete(key) })
	if err != nil {
		return fmt.Errorf("write %s: %w", f.db.Path(), err)
	}
	return nil
}

// Change is a value that is new, or gone if Value is nil.
type Change struct {
	Key, Value []byte
}

// Apply makes changes together: all of them are on the disk when it returns, or
// none.
func (f *File) Apply(changes []Change) error {
	err := f.db.Update(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucket())
		b.FillPercent = full
		for _, c := range changes {
			var err error
			if c.Value == nil {
				err = b.Delete(c.Key)
			} else {
				err = b.Put(c.Key, c.Value)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", f.db.Path(), err)
	}
	return nil
}

// Each returns every value.
func (f *File) Each(see func(key, value []byte) error) error {
	err := f.db.View(func(tx *bolt.Tx) error { return tx.Bucket(bucket()).ForEach(see) })
	if err != nil {
		return fmt.Errorf("read %s: %w", f.db.Path(), err)
	}
	return nil
}

// Close closes the file.
func (f *File) Close() error { return f.db.Close() }
