package offloadrun

import (
	"context"
	"fmt"
	"path/filepath"

	"weft/internal/kernel/netfilter"
	"weft/internal/runner"
	"weft/internal/state"
	"weft/internal/store/statefile"
)

// unannouncedFile keeps the ids of connections that began before weft first
// listened: the next process must leave them to the stack, too.
const unannouncedFile = "untold.json"

// readUnannounced gives nil if weft never listened here.
func readUnannounced(dir string) (map[uint32]bool, error) {
	var list []uint32
	found, err := statefile.Cache(filepath.Join(dir, unannouncedFile), &list)
	if err != nil {
		return nil, fmt.Errorf("read the list of old connections: %w", err)
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

// unannounced returns the connections whose end the kernel will not announce:
// those that were there before weft first listened here.
func unannounced(ctx context.Context, d runner.Doors) (map[uint32]bool, error) {
	known, err := readUnannounced(d.Paths.Run)
	if err != nil {
		return nil, err
	}
	tracking, err := netfilter.OpenConntrack()
	if err != nil {
		return nil, err
	}
	defer tracking.Close()
	ids := map[uint32]bool{}
	list := []uint32{} // never null in the file
	err = tracking.All(ctx, func(c state.Connection) {
		if known == nil || known[c.ID] {
			ids[c.ID] = true
			list = append(list, c.ID)
		}
	})
	if err != nil {
		return nil, err
	}
	return ids, statefile.Write(filepath.Join(d.Paths.Run, unannouncedFile), list)
}
