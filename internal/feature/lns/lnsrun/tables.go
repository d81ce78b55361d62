package lnsrun

import (
	"weft/internal/datapath/subscribertable"
	"weft/internal/runner"
)

// Source gives what the nouns of the maps are read from.
func Source(d runner.Doors) any { return subscribertable.Of(d.Datapath) }
