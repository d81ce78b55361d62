package nat64

import (
	"weft/internal/config"
	"weft/internal/feature"
	"weft/internal/state"
)

// Feature declares translation between IPv6 and IPv4: SIIT (RFC 7915), stateful
// NAT64 (RFC 6146) and the CLAT of 464XLAT (RFC 6877).
var Feature = feature.Feature{
	Name:     "nat64",
	Sections: []config.Section{Section()},
	Sizes: func(f *config.File, t *state.Tables) {
		own := Tables(f)
		t.Bindings, t.Sessions = own.Bindings, own.Sessions
	},
	Offers: func(f *config.File, facts *state.Facts) {
		facts.Prefixes64, facts.Sharable, facts.SharableIDs = Prefixes64(f), Sharable(f), map[string]int{}
		for _, name := range facts.Sharable {
			if id, there := ID(*facts, name); there {
				facts.SharableIDs[name] = id
			}
		}
	},
	Plan:  Plan,
	Nouns: Nouns(),
}
