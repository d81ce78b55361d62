package guardrun

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"time"

	"weft/internal/state"
)

// setReader reads sets of nftables: the kernel.
type setReader interface {
	AddressSet(ctx context.Context, name string) (state.AddressSet, error)
}

// silentLook is how often a set is read whose elements come or go without a
// word: packets put them in, or their time ends.
const silentLook = 5 * time.Second

// blockSet is a set as it was read last.
type blockSet struct {
	prefixes []netip.Prefix
	silent   bool
	read     time.Time
}

// readSets reads those that may have changed. One that cannot be read leaves
// what it said before in force.
func (w *blockWriter) readSets(ctx context.Context, names []string, now time.Time) error {
	maps.DeleteFunc(w.sets, func(name string, _ *blockSet) bool { return !slices.Contains(names, name) })
	var errs []error
	for _, name := range names {
		known := w.sets[name]
		if known != nil && !w.ruleset && !(known.silent && now.Sub(known.read) >= silentLook) {
			continue
		}
		set, err := w.reader.AddressSet(ctx, name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		slices.SortFunc(set.Prefixes, netip.Prefix.Compare)
		if known == nil || !slices.Equal(known.prefixes, set.Prefixes) {
			w.changed = true
		}
		w.sets[name] = &blockSet{set.Prefixes, set.Silent, now}
	}
	if len(errs) == 0 {
		w.ruleset = false
	}
	return errors.Join(errs...)
}
