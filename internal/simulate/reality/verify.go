package reality

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// Unequal is the set-up of the check: 20 Mbit/s with 10 ms, 5 Mbit/s with 50 ms.
func Unequal() []Shape {
	return []Shape{
		{Rate: 20e6, Delay: 10 * time.Millisecond, Queue: 100_000},
		{Rate: 5e6, Delay: 50 * time.Millisecond, Queue: 100_000},
	}
}

// Workload is a row of transfers over one connection.
type Workload struct {
	Name  string
	Sizes []int64
	Pause time.Duration
}

// Workloads are a bulk transfer, and a mix of short ones.
func Workloads() []Workload {
	mix := Workload{Name: "mix", Pause: 300 * time.Millisecond}
	for _, k := range []int64{30, 100, 50, 200, 30, 400, 100, 60, 300, 150, 30, 600} {
		mix.Sizes = append(mix.Sizes, k*1000)
	}
	return []Workload{{Name: "bulk", Sizes: []int64{10_000_000}}, mix}
}

// Verdict compares the mean completion time of a workload.
type Verdict struct {
	Workload       string          `json:"workload"`
	Kernel         time.Duration   `json:"kernel"` // median of the rounds
	Least          time.Duration   `json:"least"`
	Most           time.Duration   `json:"most"`
	Rounds         int             `json:"rounds"`
	Simulated      time.Duration   `json:"simulated"`
	Error          float64         `json:"error"`        // of the prediction, as a share of the kernel's
	KernelSizes    []time.Duration `json:"kernel_sizes"` // medians, transfer by transfer
	SimulatedSizes []time.Duration `json:"simulated_sizes"`
}

// Verify carries each workload out in as many rounds, each on a network of its
// own called after name, and predicts it.
func Verify(ctx context.Context, name string, rounds int, progress func(string)) ([]Verdict, error) {
	var all []Verdict
	for _, w := range Workloads() {
		predicted, err := Predict(ctx, Unequal(), w.Sizes, w.Pause)
		if err != nil {
			return nil, err
		}
		v := Verdict{Workload: w.Name, Rounds: rounds, Simulated: mean(predicted), SimulatedSizes: predicted}
		var means []time.Duration
		each := make([][]time.Duration, len(w.Sizes))
		for round := range rounds {
			progress(fmt.Sprintf("%s, round %d of %d", w.Name, round+1, rounds))
			times, err := once(ctx, name, w)
			if err != nil {
				return nil, err
			}
			means = append(means, mean(times))
			for i, t := range times {
				each[i] = append(each[i], t)
			}
		}
		for _, e := range each {
			v.KernelSizes = append(v.KernelSizes, median(e))
		}
		v.Kernel, v.Least, v.Most = median(means), slices.Min(means), slices.Max(means)
		v.Error = float64(v.Simulated)/float64(v.Kernel) - 1
		all = append(all, v)
	}
	return all, nil
}

func once(ctx context.Context, name string, w Workload) (times []time.Duration, err error) {
	n, err := Build(ctx, name, Unequal())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	return n.Transfer(ctx, w.Sizes, w.Pause)
}

func mean(times []time.Duration) time.Duration {
	var sum time.Duration
	for _, t := range times {
		sum += t
	}
	return sum / time.Duration(max(1, len(times)))
}

func median(times []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// Print writes verdicts for people.
func Print(out io.Writer, all []Verdict) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "mean completion\tkernel\tleast\tmost\trounds\tsimulated\terror\t")
	const unit = time.Millisecond / 10
	for _, v := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%+.1f%%\t\n", v.Workload, v.Kernel.Round(unit), v.Least.Round(unit), v.Most.Round(unit), v.Rounds, v.Simulated.Round(unit), 100*v.Error)
	}
	for _, v := range all {
		if len(v.KernelSizes) < 2 {
			continue
		}
		fmt.Fprintf(w, "\n%s, one by one\tkernel\tsimulated\terror\t\n", v.Workload)
		for i, k := range v.KernelSizes {
			s := v.SimulatedSizes[i]
			fmt.Fprintf(w, "%d\t%s\t%s\t%+.1f%%\t\n", i+1, k.Round(unit), s.Round(unit), 100*(float64(s)/float64(k)-1))
		}
	}
	return w.Flush()
}
