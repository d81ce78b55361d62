package routerun

import (
	"context"
	"fmt"
	"log/slog"

	"weft/internal/config"
	"weft/internal/runner"
	"weft/internal/state"
)

// Mirror is a mirror that does not run but is brought up to date when it is
// asked: that of weft trace. It asks for no neighbour by itself.
type Mirror struct {
	mirror *mirror
	done   func() error
}

// OpenMirror fills the route tables of a file; nil if it has no [route].
func OpenMirror(ctx context.Context, d runner.Doors, f *config.File, facts state.Facts) (*Mirror, error) {
	want := wantedOf(f, facts)
	if want.tables == (state.RouteTables{}) {
		return nil, nil
	}
	d.Log = slog.New(slog.DiscardHandler)
	m, done, err := openMirror(d, want)
	if err != nil {
		return nil, fmt.Errorf("open the route tables: %w", err)
	}
	if err := m.sync(ctx); err != nil {
		_ = done()
		return nil, fmt.Errorf("fill the route tables: %w", err)
	}
	return &Mirror{m, done}, nil
}

// Follow brings the tables to what the kernel has now.
func (m *Mirror) Follow(ctx context.Context) error {
	if m == nil {
		return nil
	}
	if err := m.mirror.catchUp(ctx); err != nil {
		return fmt.Errorf("follow the kernel's routes: %w", err)
	}
	return nil
}

// Close closes the tables; what is in them stays.
func (m *Mirror) Close() error {
	if m == nil {
		return nil
	}
	return m.done()
}
