package translate

import "weft/internal/state"

// Option kinds of RFC 791 section 3.1.
const (
	optionEnd         = 0
	optionNop         = 1
	optionLooseRoute  = 131
	optionStrictRoute = 137
)

// checkOptions reads the options of an IPv4 header. They are never translated
// (RFC 7915 section 4.1); a source route that has not been used up forbids
// translation. A route is used up when its pointer, which counts from 1, is
// past its length.
func checkOptions(options []byte) state.Outcome {
	for len(options) > 0 {
		switch options[0] {
		case optionEnd:
			return state.OutcomeNone
		case optionNop:
			options = options[1:]
			continue
		}
		if len(options) < 2 {
			return state.DropBadHeader
		}
		length := int(options[1])
		if length < 2 || length > len(options) {
			return state.DropBadHeader
		}
		if options[0] == optionLooseRoute || options[0] == optionStrictRoute {
			if length < 3 {
				return state.DropBadHeader
			}
			if int(options[2]) <= length {
				return state.DropSourceRoute
			}
		}
		options = options[length:]
	}
	return state.OutcomeNone
}
