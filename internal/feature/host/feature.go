package host

import "weft/internal/feature"

// Feature declares what the [interface.NAME] sections want of the host itself.
var Feature = feature.Feature{Name: "host", Plan: Plan, Nouns: Nouns()}
