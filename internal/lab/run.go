package lab

import (
	"context"
	"time"
)

// Run brings a lab up, runs its checks, and reports. The lab stays up when it
// returns without error; a lab that fails to come up is removed.
func Run(ctx context.Context, o Options, report Report) (Summary, error) {
	begin := time.Now()
	sum := Summary{Lab: o.Name, Scenario: o.Source.Name}
	report.Begin(o.Scenario, o.Name)
	steps := 0
	o.Progress = func(s Step) {
		if _, within := s.(GuestStage); !within {
			steps++
		}
		report.Step(s)
	}
	l, err := Up(ctx, o)
	if err != nil {
		return sum, err
	}
	defer l.Close()
	report.Up(time.Since(begin), steps)
	count := func(r Result) {
		report.Result(r)
		if r.OK {
			sum.Passed++
		} else {
			sum.Failed++
		}
	}
	for i, c := range o.Scenario.Checks {
		report.Trying(c, i+1, len(o.Scenario.Checks))
		r, err := l.Check(ctx, c)
		if err != nil {
			return sum, err
		}
		count(r)
	}
	for _, r := range l.Casualties() {
		count(r)
	}
	sum.OK = sum.Failed == 0
	sum.Seconds = time.Since(begin).Seconds()
	report.End(sum)
	return sum, nil
}
