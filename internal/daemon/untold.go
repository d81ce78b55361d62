package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// untoldFile keeps the ids of connections that began before weft first
// listened: the next process must leave them to the stack, too.
const untoldFile = "untold.json"

// readUntold gives nil if weft never listened here.
func readUntold(dir string) (map[uint32]bool, error) {
	text, err := os.ReadFile(filepath.Join(dir, untoldFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read old connections: %w", err)
	}
	var list []uint32
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("read old connections: %w", err)
	}
	known := map[uint32]bool{}
	for _, id := range list {
		known[id] = true
	}
	return known, nil
}

func writeUntold(dir string, list []uint32) error {
	text, err := json.Marshal(append([]uint32{}, list...))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, untoldFile), text, 0o600); err != nil {
		return fmt.Errorf("keep old connections: %w", err)
	}
	return nil
}
