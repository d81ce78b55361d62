package session

import "weft/internal/state"

// State is that of a session (RFC 6146 section 3.5.2.1).
type State = state.SessionState

const (
	Active      = state.SessionActive
	V4Init      = state.SessionV4Init
	V6Init      = state.SessionV6Init
	Established = state.SessionEstablished
	V4Fin       = state.SessionV4Fin
	V6Fin       = state.SessionV6Fin
	BothFin     = state.SessionBothFin
	Trans       = state.SessionTrans
)

// TCP flags (RFC 9293 section 3.1).
const (
	FIN = 1
	SYN = 2
	RST = 4
	ACK = 16
)

// timer says how a packet changes a session's life.
type timer uint8

const (
	keep timer = iota // it ends when it would have ended
	udp
	icmp
	established
	transitory
)

// nextTCP returns the state after a segment (RFC 6146 section 3.5.2.2), and the
// timer that it starts. A reset shortens half-closed sessions too.
func nextTCP(s State, from6 bool, flags uint8) (State, timer) {
	syn, fin, rst := flags&SYN != 0, flags&FIN != 0, flags&RST != 0
	switch s {
	case V4Init:
		if from6 && syn {
			return Established, established
		}
	case V6Init:
		switch {
		case syn && from6:
			return V6Init, transitory
		case syn:
			return Established, established
		}
	case Established:
		switch {
		case rst:
			return Trans, transitory
		case fin && from6:
			return V6Fin, established
		case fin:
			return V4Fin, established
		}
		return s, established
	case V4Fin, V6Fin:
		switch {
		case rst:
			return Trans, transitory
		case fin && from6 == (s == V4Fin): // the other side's
			return BothFin, transitory
		}
		return s, established
	case Trans:
		if !rst {
			return Established, established
		}
	}
	return s, keep
}
