package datapath

import (
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Collect decodes every entry of a map, each once.
func Collect[K comparable, V, T any](d *Datapath, name string, decode func(K, V) T) ([]T, error) {
	m, err := d.Map(name)
	if err != nil {
		return nil, err
	}
	keys, values, err := ReadAll[K, V](m)
	if err != nil {
		return nil, fmt.Errorf("read map %s: %w", name, err)
	}
	var list []T
	for _, k := range keys {
		list = append(list, decode(k, values[k]))
	}
	return list, nil
}

// readTries is the number of attempts to read a map that changes all the time.
const readTries = 5

// ReadAll returns the entries of a map. When an entry is deleted during the read, as
// learnt addresses are, the kernel starts at the first again, and cilium/ebpf gives
// up when that has gone on for too long.
//
// Tables of thousands are read many entries at a time, where the kernel can.
func ReadAll[K comparable, V any](m *ebpf.Map) (keys []K, values map[K]V, err error) {
	if m.Type() == ebpf.Hash {
		if keys, values, ok := readBatches[K, V](m); ok {
			return keys, values, nil
		}
	}
	values = map[K]V{}
	for range readTries {
		entries := m.Iterate()
		for {
			var k K
			var v V // of its own: values of each CPU are a slice
			if !entries.Next(&k, &v) {
				break
			}
			if _, again := values[k]; !again {
				keys = append(keys, k)
			}
			values[k] = v
		}
		if err = entries.Err(); !errors.Is(err, ebpf.ErrIterationAborted) {
			break
		}
	}
	return keys, values, err
}

func (d *Datapath) Write(name string, key, value any, remove bool) error {
	m, err := d.Map(name)
	if remove && errors.Is(err, ErrOtherVersion) {
		return nil // a missing map has no entries
	}
	if err != nil {
		return err
	}
	if remove {
		if err := m.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("delete from map %s: %w", name, err)
		}
		return nil
	}
	if err := Retry(func() error { return m.Put(key, value) }); err != nil {
		return fmt.Errorf("write to map %s: %w", name, err)
	}
	return nil
}

// The kernel refills the pool of free entries (bpf_mem_alloc) in the background: a
// process that writes thousands in a row may empty it.
const (
	memoryTries = 200
	memoryPause = time.Millisecond
)

// Retry calls f, and again for a while if the kernel has no memory for an entry at
// the moment.
func Retry(f func() error) (err error) {
	for range memoryTries {
		if err = f(); !errors.Is(err, unix.ENOMEM) {
			return err
		}
		time.Sleep(memoryPause)
	}
	return err
}

// BatchSize is the number of entries that are read with one call.
const BatchSize = 4096

// Entries reads a table in batches; decode decides which entries are returned.
func Entries[K, V, T any](d *Datapath, name string, decode func(K, V) (T, bool)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		m, err := d.Map(name)
		if err != nil {
			yield(none, err)
			return
		}
		keys, values := make([]K, BatchSize), make([]V, BatchSize)
		var at ebpf.MapBatchCursor
		for {
			n, err := m.BatchLookup(&at, keys, values, nil)
			if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
				yield(none, fmt.Errorf("read map %s: %w", name, err))
				return
			}
			for i := range n {
				if t, ok := decode(keys[i], values[i]); ok && !yield(t, nil) {
					return
				}
			}
			if err != nil { // that was the last batch
				return
			}
		}
	}
}

// DeleteWhere deletes the entries of a map for which gone returns true.
func DeleteWhere[K comparable, V any](d *Datapath, name string, gone func(K, V) bool) error {
	keys, err := Collect(d, name, func(k K, v V) *K {
		if !gone(k, v) {
			return nil
		}
		return &k
	})
	if err != nil {
		return err
	}
	for _, k := range keys {
		if k == nil {
			continue
		}
		if err := d.Write(name, *k, nil, true); err != nil {
			return err
		}
	}
	return nil
}
