package daemon

import (
	"fmt"
	"path/filepath"

	"weft/internal/store/statefile"
)

// untoldFile keeps the ids of connections that began before weft first
// listened: the next process must leave them to the stack, too.
const untoldFile = "untold.json"

// readUntold gives nil if weft never listened here.
func readUntold(dir string) (map[uint32]bool, error) {
	var list []uint32
	found, err := statefile.Read(filepath.Join(dir, untoldFile), &list)
	if err != nil {
		return nil, fmt.Errorf("read old connections: %w", err)
	}
	if !found {
		return nil, nil
	}
	known := map[uint32]bool{}
	for _, id := range list {
		known[id] = true
	}
	return known, nil
}

func writeUntold(dir string, list []uint32) error {
	return statefile.Write(filepath.Join(dir, untoldFile), append([]uint32{}, list...))
}
