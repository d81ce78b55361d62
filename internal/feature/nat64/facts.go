package nat64

import (
	"weft/internal/config"
	"weft/internal/state"
)

// Sharable returns the NAMEs of the translators of f that have sessions.
func Sharable(f *config.File) []string {
	var list []string
	for _, name := range f.Names("nat64") {
		if From(f, name).Mode == StatefulMode {
			list = append(list, name)
		}
	}
	return list
}

// ID returns the number of a translator in the datapath.
func ID(facts state.Facts, name string) (int, bool) {
	id, ok := facts.Translators[state.ShortName(name)]
	return id, ok
}

// Prefixes64 returns the prefixes under which IPv6 nodes reach IPv4 through the
// translators of f, for those who tell clients of them.
func Prefixes64(f *config.File) []state.Prefix64 {
	var list []state.Prefix64
	for _, name := range f.Names("nat64") {
		if c := From(f, name); c.Prefix.IsValid() && c.Mode != CLAT {
			list = append(list, state.Prefix64{Translator: name, Prefix: c.Prefix, Interfaces: c.Interfaces})
		}
	}
	return list
}
