package datapath

import (
	"errors"

	"github.com/cilium/ebpf"
)

// readAtOnce is how many entries are asked for in one go. It has to be more than
// one bucket of the kernel's table holds.
const readAtOnce = 512

// readBatches returns the entries of a hash table, unless the kernel will not give
// them so. A bucket is read at once: nothing that stays is missed or comes twice.
func readBatches[K comparable, V any](m *ebpf.Map) (keys []K, values map[K]V, ok bool) {
	values = map[K]V{}
	someKeys, someValues := make([]K, readAtOnce), make([]V, readAtOnce)
	var at ebpf.MapBatchCursor
	for {
		n, err := m.BatchLookup(&at, someKeys, someValues, nil)
		done := errors.Is(err, ebpf.ErrKeyNotExist)
		if err != nil && !done {
			return nil, nil, false
		}
		for i, k := range someKeys[:n] {
			if _, again := values[k]; !again {
				keys = append(keys, k)
			}
			values[k] = someValues[i]
		}
		if done {
			return keys, values, true
		}
	}
}
