package daemon

import (
	"weft/internal/api"
	"weft/internal/features"
	"weft/internal/runner"
)

// Doors are the sources from which nouns are read; that of eBPF is nil if nothing is loaded.
func (r *Router) Doors() runner.Doors { return r.RunnerDoors(nil, nil) }

// registry is the set of nouns that the daemon can show.
func (d *daemon) registry() api.Registry {
	return api.Registry{Nouns: features.Nouns(), Source: features.Sources(d.router.Doors(), d.sources())}
}

// sources are the sources of the daemon's nouns, by feature.
func (d *daemon) sources() map[string]any {
	all := map[string]any{"host": core{d.reloadStatus, d.runners, &d.unset, &d.metrics, &d.onTrial}}
	for _, x := range d.runners.list {
		all[x.Name] = x.Runner
	}
	return all
}
