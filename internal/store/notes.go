package store

import (
	"encoding/binary"
	"fmt"
	"slices"

	bolt "go.etcd.io/bbolt"
)

func noteBucket() []byte { return []byte("notes") }

// Note adds a note beside the blocks, a moment after the last one if its time
// is not later. A note counts until the next one: of those from before a time
// the last stays.
func (l *Log) Note(time uint64, text []byte, before uint64) error {
	err := l.db.Update(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists(noteBucket())
		if err != nil {
			return err
		}
		if last, _ := b.Cursor().Last(); last != nil {
			time = max(time, binary.BigEndian.Uint64(last)+1)
		}
		if err := b.Put(binary.BigEndian.AppendUint64(nil, time), text); err != nil {
			return err
		}
		return trimNotes(b, before)
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", l.db.Path(), err)
	}
	return nil
}

// trimNotes deletes what was over before a time.
func trimNotes(b *bolt.Bucket, before uint64) error {
	var over [][]byte
	c := b.Cursor()
	k, _ := c.First()
	for next, _ := c.Next(); next != nil && binary.BigEndian.Uint64(next) < before; next, _ = c.Next() {
		over, k = append(over, slices.Clone(k)), next
	}
	for _, k := range over {
		if err := b.Delete(k); err != nil {
			return err
		}
	}
	return nil
}

// Notes returns the notes, oldest first, as long as see wants more.
func (l *Log) Notes(see func(time uint64, text []byte) bool) error {
	err := l.db.View(func(tx *bolt.Tx) error {
		b := tx.Bucket(noteBucket())
		if b == nil {
			return nil
		}
		c := b.Cursor()
		for k, v := c.First(); k != nil; k, v = c.Next() {
			if !see(binary.BigEndian.Uint64(k), v) {
				return nil
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read %s: %w", l.db.Path(), err)
	}
	return nil
}
