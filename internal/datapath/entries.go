package datapath

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
)

// collect decodes every entry of a map, once.
func collect[K comparable, V, T any](d *Datapath, name string, decode func(K, V) T) ([]T, error) {
	m, err := d.mapNamed(name)
	if err != nil {
		return nil, err
	}
	keys, values, err := readAll[K, V](m)
	if err != nil {
		return nil, fmt.Errorf("read map %s: %w", name, err)
	}
	var list []T
	for _, k := range keys {
		list = append(list, decode(k, values[k]))
	}
	return list, nil
}

// readTries is how often a map is read that changes all the time.
const readTries = 5

// readAll gives the entries of a map. When one goes while they are read, as
// learnt addresses do, the kernel begins with the first again, and cilium/ebpf
// gives up when that has gone on for too long.
//
// Tables of thousands are read many entries at a time, where the kernel can.
func readAll[K comparable, V any](m *ebpf.Map) (keys []K, values map[K]V, err error) {
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

func (d *Datapath) write(name string, key, value any, remove bool) error {
	m, err := d.mapNamed(name)
	if remove && errors.Is(err, ErrOtherVersion) {
		return nil // what is not there holds nothing
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
	if err := again(func() error { return m.Put(key, value) }); err != nil {
		return fmt.Errorf("write to map %s: %w", name, err)
	}
	return nil
}
