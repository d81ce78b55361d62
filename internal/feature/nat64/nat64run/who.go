package nat64run

import (
	"errors"

	"weft/internal/feature/nat64"
)

// who is where the rows of weft show who come from.
func (a *allocations) who(q nat64.WhoQuery) ([]nat64.HolderRow, error) {
	if a.file == nil {
		return nil, errors.New("weft run is starting: ask again in a moment")
	}
	rows, asked := a.fixed(q)
	if a.running != nil {
		for path, f := range a.running.files {
			found, err := nat64.Holders(f.log, f.layouts, q, a.running.namesIn(path))
			if err != nil {
				return nil, err
			}
			rows, asked = append(rows, found...), true
		}
	}
	if !asked {
		return nil, nat64.ErrNoAllocations
	}
	return rows, nil
}

func (r *allocationRun) namesIn(path string) map[int]string {
	names := map[int]string{}
	for id, t := range r.tasks {
		if t.file == path {
			names[id] = t.name
		}
	}
	return names
}

// fixed answers for translators whose ports are fixed and that keep no history
// of it.
func (a *allocations) fixed(q nat64.WhoQuery) (rows []nat64.HolderRow, asked bool) {
	for _, name := range a.file.Names("nat64") {
		c := nat64.From(a.file, name)
		l, fixed := c.Layout()
		if !fixed || c.AllocationLog != "" {
			continue
		}
		asked = true
		for _, row := range nat64.BlockHolders(name, l, q) {
			row.Note = "by the current configuration; without allocation_log earlier port blocks are not known"
			rows = append(rows, row)
		}
	}
	return rows, asked
}
