package ability

import (
	"testing"

	"weft/internal/state"
)

func TestOnlyObjectsThatNeedTunAskForIt(t *testing.T) {
	for name, c := range map[string]struct {
		desired state.Desired
		want    bool
	}{
		"addresses and routes": {state.Desired{state.Sysctl{}, state.Address{}}, false},
		"a translator":         {state.Desired{state.Device{}}, true},
	} {
		if got := needsTun(c.desired); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
