package slowpath

import (
	"encoding/binary"

	"weft/internal/state"
)

// Link addresses mean nothing between the programs and the slow path: they
// carry a note instead, struct slow_note and struct slow_back of
// bpf/lib/slow.h, which begins with two bytes that mark it.

// readNote returns what a program wrote into the link header of frame; nothing
// if no program did.
func readNote(frame []byte) state.Arrival {
	if frame[0] != mark0 || frame[1] != mark1 {
		return state.Arrival{}
	}
	return state.Arrival{
		Why:    state.Outcome(frame[2]),
		MTUOut: int(binary.BigEndian.Uint16(frame[4:])),
		MTUIn:  int(binary.BigEndian.Uint16(frame[6:])),
		Index:  int(binary.BigEndian.Uint32(frame[8:])),
	}
}

// writeBack marks frame as arriving at an interface.
func writeBack(frame []byte, index int) {
	frame[6], frame[7] = mark0, mark1
	binary.BigEndian.PutUint32(frame[8:], uint32(index))
}
