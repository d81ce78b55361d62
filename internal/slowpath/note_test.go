package slowpath

import (
	"encoding/hex"
	"testing"

	"weft/internal/state"
)

func TestANoteSaysWhatTheProgramKnew(t *testing.T) {
	for _, c := range []struct {
		header string // destination and source address of a frame
		want   state.Arrival
	}{
		{"0677090005dc0578000000030800", state.Arrival{Why: 9, MTUOut: 1500, MTUIn: 1400, Index: 3}},
		{"0677ff00ffffffff7fffffff86dd", state.Arrival{Why: 255, MTUOut: 65535, MTUIn: 65535, Index: 1<<31 - 1}},
		{"0677000000000000000000000800", state.Arrival{}},
		// any other frame has none, whatever its addresses
		{"0277090005dc0578000000030800", state.Arrival{}},
		{"0678090005dc0578000000030800", state.Arrival{}},
	} {
		frame, err := hex.DecodeString(c.header)
		if err != nil {
			t.Fatal(err)
		}
		if got := readNote(frame); got != c.want {
			t.Errorf("%s says %+v, want %+v", c.header, got, c.want)
		}
	}
}

func TestAFrameThatGoesBackNamesItsInterface(t *testing.T) {
	frame := make([]byte, ethernetHeader)
	writeBack(frame, 0x01020304)
	if got := hex.EncodeToString(frame); got != "0000000000000677010203040000" {
		t.Errorf("made %s", got)
	}
}
