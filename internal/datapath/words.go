package datapath

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Words is the value of a memory-mapped eBPF array of one entry, as the 32-bit words
// that programs read at the same moment.
type Words struct {
	Words  []uint32
	memory []byte
}

// MapWords maps an array's only value into memory. It stays mapped, and in
// the kernel, until Close, also if the map is closed before.
func MapWords(m *ebpf.Map) (*Words, error) {
	return mapWords(m, unix.PROT_READ|unix.PROT_WRITE)
}

// ViewWords is MapWords for words that are only read.
func ViewWords(m *ebpf.Map) (*Words, error) { return mapWords(m, unix.PROT_READ) }

func mapWords(m *ebpf.Map, protection int) (*Words, error) {
	if m.MaxEntries() != 1 || m.ValueSize()%4 != 0 {
		return nil, fmt.Errorf("map %s into memory: %d values of %d bytes are not one value of whole words", m, m.MaxEntries(), m.ValueSize())
	}
	size := int(m.ValueSize())
	memory, err := MapMemory(m, size, protection)
	if err != nil {
		return nil, err
	}
	// The words are aligned: mmap(2) gives whole pages.
	words := unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(memory))), size/4)
	return &Words{words, memory}, nil
}

// mapMemory maps size bytes of an array's values.
func MapMemory(m *ebpf.Map, size, protection int) ([]byte, error) {
	page := unix.Getpagesize()
	memory, err := unix.Mmap(m.FD(), 0, (size+page-1)/page*page, protection, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s into memory: %w", m, err)
	}
	return memory, nil
}

// Close unmaps. The words must not be touched afterwards.
func (w *Words) Close() error {
	w.Words = nil
	return unix.Munmap(w.memory)
}

// membarrierGlobal is MEMBARRIER_CMD_GLOBAL of linux/membarrier.h.
const membarrierGlobal = 1

// Grace returns when every eBPF program that ran at its call has ended
// (membarrier(2) waits for a grace period of RCU). It takes some milliseconds.
func Grace() error {
	_, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, membarrierGlobal, 0, 0)
	if errno != 0 {
		return fmt.Errorf("wait for a grace period: %w", errno)
	}
	return nil
}

// mapID is the number of a map in the kernel; false: it does not tell.
func MapID(m *ebpf.Map) (ebpf.MapID, bool) {
	info, err := m.Info()
	if err != nil {
		return 0, false
	}
	return info.ID()
}

// InnerMaps opens the maps in an array of maps, by their index.
func InnerMaps(outer *ebpf.Map) (map[int]*ebpf.Map, error) {
	found := map[int]*ebpf.Map{}
	for table := range outer.MaxEntries() {
		var id uint32
		err := outer.Lookup(table, &id)
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			continue
		}
		if err != nil {
			CloseInner(found)
			return nil, fmt.Errorf("read %s: %w", outer, err)
		}
		m, err := ebpf.NewMapFromID(ebpf.MapID(id))
		if errors.Is(err, os.ErrNotExist) {
			continue // replaced since
		}
		if err != nil {
			CloseInner(found)
			return nil, fmt.Errorf("open entry %d of %s: %w", table, outer, err)
		}
		found[int(table)] = m
	}
	return found, nil
}

// CloseInner lets go of what InnerMaps has opened.
func CloseInner(all map[int]*ebpf.Map) {
	for _, m := range all {
		m.Close()
	}
}
