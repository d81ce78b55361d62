package bench

import (
	"context"
	"fmt"
	"math"
	"slices"
)

// DefaultSeconds is how much of a TCP measurement counts unless a bench or its
// caller says otherwise.
const DefaultSeconds = 1.5

// TCPSeconds is how long iperf3 runs so that so many seconds count: whole
// seconds, of which the first half second is warm-up.
func TCPSeconds(seconds float64) int { return max(1, int(math.Ceil(seconds+0.5))) }

// Described is a subject as its bench knows it.
type Described interface{ Describe() Subject }

// Subjects describes the subjects of a bench.
func Subjects[S Described](list []S) []Subject {
	var all []Subject
	for _, s := range list {
		all = append(all, s.Describe())
	}
	return all
}

// Find returns the subject of a name.
func Find[S Described](list []S, name string) (s S, err error) {
	i := slices.IndexFunc(list, func(s S) bool { return s.Describe().Name == name })
	if i < 0 {
		return s, fmt.Errorf("no subject is called %q", name)
	}
	return list[i], nil
}

// Suite finds what measures a subject in a case. P is a case taken apart, K the
// kind of measurement that it is.
type Suite[S Described, P any, K comparable] struct {
	Parts    map[string]P // by the case's name
	Subjects []S
	Kind     func(P) K
	Measures map[K]func(context.Context, S, P) (float64, error)
}

// Measure measures a subject in a case, once.
func (s Suite[S, P, K]) Measure(ctx context.Context, c, subject string) (float64, error) {
	part, ok := s.Parts[c]
	if !ok {
		return 0, fmt.Errorf("no case is called %q", c)
	}
	of, err := Find(s.Subjects, subject)
	if err != nil {
		return 0, err
	}
	measure, ok := s.Measures[s.Kind(part)]
	if !ok {
		return 0, fmt.Errorf("case %q has no measurement", c)
	}
	return measure(ctx, of, part)
}
