package pseudowire

import (
	"slices"
	"strings"
	"testing"

	"weft/internal/bench"
	"weft/internal/bench/benchtest"
	"weft/internal/lab"
)

func TestEveryGuestIsOfALabThatTriesIt(t *testing.T) {
	for _, g := range guests() {
		s, src, way, err := g.scenario()
		if err != nil {
			t.Error(err)
			continue
		}
		at := slices.IndexFunc(s.Nodes, func(n lab.Node) bool { return n.Name == way.At })
		if at < 0 || !s.Nodes[at].Kind.IsGuest() || !strings.HasPrefix(g.name, string(s.Nodes[at].Kind)+"-") {
			t.Errorf("%s: %s of lab %s is no guest of that kind", g.name, way.At, src.Name)
		}
		if !strings.Contains(s.Nodes[at].Script, "iperf3") {
			t.Errorf("%s: nothing in it speaks to the measurement", g.name)
		}
	}
}

func TestGuestsAreOnlyInTheirCases(t *testing.T) {
	for _, c := range []struct {
		cases, subjects []string
		want            int
	}{
		{nil, nil, len(guests())},
		{[]string{"tcp1"}, nil, 0},
		{[]string{"tcp1", "guest-up"}, []string{"bare", "uml-gre"}, 1},
	} {
		if got := Guests(c.cases, c.subjects); len(got) != c.want {
			t.Errorf("of cases %q and subjects %q: %q, want %d", c.cases, c.subjects, got, c.want)
		}
	}
	if fits("guest-up", "bare") || fits("tcp1", "uml-gre") || !fits("guest-down", "qemu-tap") || !fits("tcp1", "bare") {
		t.Error("guests and wires are mixed")
	}
}

func TestGuestsAreMeasuredBothWays(t *testing.T) {
	weft := benchtest.Weft(t, Needs()...)
	chosen := []string{"uml-gre", "uml-kernel", "qemu-tap"}
	m, err := Open(t.Context(), Options{Weft: weft, Seconds: 0.5, Guests: chosen})
	if err != nil {
		t.Fatal(err)
	}
	benchtest.Once(t, Bench(0.5), m, bench.Options{Cases: []string{guestUp, guestDown}, Subjects: chosen})
	left, err := lab.Running()
	if err != nil || slices.ContainsFunc(left, func(r lab.Record) bool { return strings.HasPrefix(r.Name, labName("")) }) {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
