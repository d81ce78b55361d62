// Package state holds the plain values that the rooms of weft hand to each
// other: problems found, facts about the host, and what is desired of it.
// It imports nothing of weft and has no effects.
package state
