package ra

import (
	"weft/internal/config"
	"weft/internal/feature"
	"weft/internal/state"
)

// Feature declares router advertisements (RFC 4861) and DHCPv6 with prefix
// delegation (RFC 8415).
var Feature = feature.Feature{
	Name:     "ra",
	Sections: []config.Section{Section()},
	Offers: func(f *config.File, facts *state.Facts) {
		facts.Delegated, facts.Advertises = Delegated(f), devices(f)
	},
	Plan:  Plan,
	Nouns: Nouns(),
}

// devices are those on which the sections advertise.
func devices(f *config.File) (list []string) {
	for _, name := range f.Names("ra") {
		if i := f.Interface(From(f, name).Interface); i != nil {
			list = append(list, i.Device)
		}
	}
	return list
}
