package watch

import (
	"context"
	"fmt"
	"time"

	"weft/internal/simulate"
	"weft/internal/simulate/scenario"
)

// maxRun bounds the time that one run may take.
const maxRun = 10 * time.Second

// Run carries a scenario out and gives the trace of its window from a time on
// and so long.
func Run(ctx context.Context, s *scenario.Scenario, from, length time.Duration, l Limits) (t *Trace, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, maxRun, fmt.Errorf("the run takes more than %s: shorten it (scenario.end), or take slower paths or smaller streams", maxRun))
	defer cancel()
	setup := s.Setup
	r := newRecorder(&setup, from, from+length, l)
	defer func() {
		if p := recover(); p != nil {
			much, ok := p.(tooMuch)
			if !ok {
				panic(p)
			}
			t, err = nil, much.error
		}
	}()
	m, err := simulate.New(setup, r.record)
	if err != nil {
		return nil, err
	}
	result, err := m.Run(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return nil, cause
	}
	if err != nil {
		return nil, err
	}
	if from > result.End {
		return nil, fmt.Errorf("the window begins at %s, but the run ends at %s", from, result.End)
	}
	return r.trace(s, result), nil
}
