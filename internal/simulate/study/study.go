// Package study runs a simulation many times, with different seeds, schedulers
// or parameters, and says what can be concluded.
package study

import (
	"context"
	"sync"

	"weft/internal/simulate"
)

// Case is one thing to be compared: a setup, run with several seeds.
type Case struct {
	Name  string
	Setup simulate.Setup
}

// Outcome is the results of one case, in the order of the seeds.
type Outcome struct {
	Name    string
	Results []simulate.Result
}

// Run runs each case with as many seeds, the setup's and those after it, so that
// all cases meet the same arrivals. It uses so many workers, and calls done
// after each run, one call at a time, with how many are done. The result does
// not depend on the number of workers.
func Run(ctx context.Context, cases []Case, seeds, workers int, done func(runs int)) ([]Outcome, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out := make([]Outcome, len(cases))
	for i, c := range cases {
		out[i] = Outcome{Name: c.Name, Results: make([]simulate.Result, seeds)}
	}
	jobs := make(chan int)
	var group sync.WaitGroup
	var lock sync.Mutex
	runs := 0
	for range max(1, workers) {
		group.Go(func() {
			for job := range jobs {
				r, err := one(ctx, cases[job/seeds].Setup, uint64(job%seeds))
				if err != nil {
					cancel(err)
					continue
				}
				out[job/seeds].Results[job%seeds] = r
				lock.Lock()
				runs++
				if done != nil {
					done(runs)
				}
				lock.Unlock()
			}
		})
	}
	for job := range len(cases) * seeds {
		if ctx.Err() != nil {
			break
		}
		jobs <- job
	}
	close(jobs)
	group.Wait()
	return out, context.Cause(ctx)
}

func one(ctx context.Context, s simulate.Setup, seed uint64) (simulate.Result, error) {
	s.Seed += seed
	m, err := simulate.New(s, nil)
	if err != nil {
		return simulate.Result{}, err
	}
	return m.Run(ctx)
}
