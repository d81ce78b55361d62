package bench_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"weft/internal/bench"
)

type router string

func (r router) Describe() bench.Subject {
	return bench.Subject{Name: string(r), About: "the router " + string(r)}
}

type part struct {
	kind string
	size int
}

func TestASuiteFindsTheMeasurementOfACaseAndItsSubject(t *testing.T) {
	var asked []string
	s := bench.Suite[router, part, string]{
		Parts: map[string]part{"small": {"packets", 64}, "large": {"packets", 1500}, "flow": {"tcp", 1}, "odd": {"unknown", 0}}, Subjects: []router{"a", "b"},
		Kind: func(p part) string { return p.kind },
		Measures: map[string]func(context.Context, router, part) (float64, error){
			"packets": func(_ context.Context, r router, p part) (float64, error) {
				asked = append(asked, "packets "+string(r))
				return float64(p.size), nil
			},
			"tcp": func(_ context.Context, r router, p part) (float64, error) {
				asked = append(asked, "tcp "+string(r))
				return -1, nil
			},
		},
	}
	for _, c := range []struct {
		name, subject string
		want          float64
		fails         string
	}{
		{"small", "a", 64, ""}, {"large", "b", 1500, ""}, {"flow", "b", -1, ""},
		{"huge", "a", 0, `no case is called "huge"`}, {"small", "c", 0, `no subject is called "c"`}, {"odd", "a", 0, `"odd" has no measurement`},
	} {
		got, err := s.Measure(t.Context(), c.name, c.subject)
		if got != c.want || (err != nil) != (c.fails != "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s of %s: %v, %v, want %v and %q", c.name, c.subject, got, err, c.want, c.fails)
		}
	}
	if want := []string{"packets a", "packets b", "tcp b"}; !slices.Equal(asked, want) {
		t.Errorf("asked for %q, want %q", asked, want)
	}
	if got := bench.Subjects(s.Subjects); len(got) != 2 || got[1] != router("b").Describe() {
		t.Errorf("the subjects are %v", got)
	}
}

func TestTCPRunsWholeSecondsWithAWarmUp(t *testing.T) {
	for seconds, want := range map[float64]int{0: 1, 0.1: 1, 0.5: 1, 0.6: 2, 1.5: 2, 2: 3, 9.5: 10} {
		if got := bench.TCPSeconds(seconds); got != want {
			t.Errorf("%v s that count: iperf3 runs %d s, want %d", seconds, got, want)
		}
	}
}
