package fibtable

import (
	"testing"

	"weft/fib"
	"weft/internal/state"
)

func TestProgramsReadTheLayoutThatIsWritten(t *testing.T) {
	for _, f := range []family{fib4, fib6} {
		outer, layout, err := outerSpec(f)
		if err != nil {
			t.Fatal(err)
		}
		least := map[family]int{fib4: fib.MinWords4, fib6: fib.MinWords6}[f]
		if layout != fib.LayoutVersion || int(outer.InnerMap.ValueSize) != 4*least {
			t.Errorf("%s: layout %d of at least %d bytes in C, %d of %d in Go", f, layout, outer.InnerMap.ValueSize, fib.LayoutVersion, 4*least)
		}
	}
}

func TestNeighboursComeOutAsTheyWentIn(t *testing.T) {
	customer, service := state.VLANTags{{Proto: state.VLANCustomer, ID: 7}}, state.VLANTags{{Proto: state.VLANService, ID: 100}}
	for _, tags := range []state.VLANTags{{}, customer, service, {service[0], customer[0]}} {
		n := state.NeighbourEntry{IfIndex: 7, MTU: 1492, Dst: [6]byte{2, 6}, Src: [6]byte{2, 4}, Tags: tags, XDP: tags == state.VLANTags{}}
		if got := decodeNeighbour(encodeNeighbour(n)); got != n {
			t.Errorf("%v came out as %v", n, got)
		}
	}
}
