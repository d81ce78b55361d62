package nat64table

import (
	"errors"
	"fmt"
	"math/bits"
	"sync"

	"github.com/cilium/ebpf"

	"weft/internal/state"
)

// The session cache (bpf/blocks/nat64_session.h) is a table in chunks.
const (
	fastSets   = "nat64_fast_sets"
	fastAtOnce = 256 // chunks that are inserted together: each insertion waits for a grace period
	cacheLine  = 64
	fastHeader = 512 // room for it in a chunk, at most
)

// fastFragments is a power of two, for about as many sets of three entries as there can
// be sessions: then few sessions have no entry.
func fastFragments(t state.Tables) uint32 {
	n := t.Sessions - t.Sessions/16
	if n <= nat64FastSets {
		return 1
	}
	return 1 << bits.Len(uint(n/nat64FastSets))
}

// fastConstants are the number of chunks, and the offset of their first cache line.
func fastConstants(t state.Tables) map[string]uint32 {
	return map[string]uint32{"nat64_fast_mask": fastFragments(t) - 1, "nat64_fast_shift": (cacheLine - arrayHeader()%cacheLine) % cacheLine}
}

// arrayHeader is the number of bytes before the values in the memory of a kernel
// array; zero if it is unknown, which costs only time.
var arrayHeader = sync.OnceValue(func() uint32 {
	const value = 8
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: value, MaxEntries: 1})
	if err != nil {
		return 0
	}
	defer m.Close()
	info, err := m.Info()
	if err != nil {
		return 0
	}
	if all, ok := info.Memlock(); ok && all > value && all < fastHeader && all%8 == 0 {
		return uint32(all - value)
	}
	return 0
})

// fillFast creates the missing chunks.
func fillFast(outer *ebpf.Map, fragment *ebpf.MapSpec) error {
	var keys, fds []uint32
	var made []*ebpf.Map
	put := func() error {
		defer func() {
			for _, m := range made {
				m.Close()
			}
			keys, fds, made = nil, nil, nil
		}()
		if len(keys) == 0 {
			return nil
		}
		_, err := outer.BatchUpdate(keys, fds, nil)
		return err
	}
	for at := range outer.MaxEntries() {
		var id uint32
		err := outer.Lookup(at, &id)
		if err == nil {
			continue
		}
		if !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("look up chunk %d: %w", at, errors.Join(err, put()))
		}
		m, err := ebpf.NewMap(fragment)
		if err != nil {
			return fmt.Errorf("make chunk %d: %w", at, errors.Join(err, put()))
		}
		keys, fds, made = append(keys, at), append(fds, uint32(m.FD())), append(made, m)
		if len(keys) == fastAtOnce {
			if err := put(); err != nil {
				return fmt.Errorf("insert chunks of the session cache: %w", err)
			}
		}
	}
	if err := put(); err != nil {
		return fmt.Errorf("insert chunks of the session cache: %w", err)
	}
	return nil
}
