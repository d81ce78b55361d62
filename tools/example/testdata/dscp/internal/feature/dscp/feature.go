// Package dscp drops packets whose DSCP is for local use: code points of pool 2 (RFC 2474
// section 6) mean something inside of the network that assigned them, and nothing elsewhere.
package dscp

import (
	"weft/internal/config"
	"weft/internal/feature"
)

// Feature is the declaration.
var Feature = feature.Feature{
	Name:     "dscp",
	Sections: []config.Section{Section()},
	Plan:     Plan,
	Nouns:    Nouns(),
}
