package features

import (
	"weft/internal/noun"
	"weft/internal/runner"
)

// Nouns lists the nouns of all features.
func Nouns() (list []noun.Noun) {
	for _, x := range All() {
		list = append(list, x.Nouns...)
	}
	return list
}

// Sources returns what each noun's rows are read from: the maps, or what the daemon
// runs for the feature; nothing for a noun of the daemon if daemon is nil.
func Sources(d runner.Doors, daemon map[string]any) func(name string) any {
	sources := map[string]any{}
	for _, x := range All() {
		for n := range noun.All(x.Nouns) {
			switch {
			case n.From == noun.Daemon:
				sources[n.Name] = daemon[x.Name]
			case x.Source != nil:
				sources[n.Name] = x.Source(d)
			}
		}
	}
	return func(name string) any { return sources[name] }
}
