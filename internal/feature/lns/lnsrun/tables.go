package lnsrun

import (
	"weft/internal/datapath/subscribertable"
	"weft/internal/runner"
)

// Source returns what the nouns that read the maps need.
func Source(d runner.Doors) any { return subscribertable.Of(d.Datapath) }
