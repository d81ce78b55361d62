package nat64

import (
	"weft/internal/config"
	"weft/internal/state"
)

// Prefixes64 gives the prefixes under which IPv6 nodes reach IPv4 through the
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
