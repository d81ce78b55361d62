// Package state has the plain values that weft's packages exchange: problems, facts
// about the host, and the desired state. It imports nothing of weft and has no
// effects.
package state
