package reality

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
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
	Links []Shape
	Sizes []int64
	Pause time.Duration
}

// Workloads are a bulk transfer, and a mix of short ones.
func Workloads() []Workload {
	mix := Workload{Name: "mix", Links: Unequal(), Pause: 300 * time.Millisecond}
	for _, k := range []int64{30, 100, 50, 200, 30, 400, 100, 60, 300, 150, 30, 600} {
		mix.Sizes = append(mix.Sizes, k*1000)
	}
	return []Workload{{Name: "bulk", Links: Unequal(), Sizes: []int64{10_000_000}}, mix}
}

// Others are workloads on other links, and of other sizes, than those that the
// model of the kernel's sender was made with.
func Others() []Workload {
	const ms = time.Millisecond
	quick := []Shape{{Rate: 50e6, Delay: 5 * ms, Queue: 150_000}, {Rate: 10e6, Delay: 30 * ms, Queue: 60_000}}
	alike := []Shape{{Rate: 10e6, Delay: 20 * ms, Queue: 200_000}, {Rate: 10e6, Delay: 25 * ms, Queue: 200_000}}
	sizes := []int64{80_000, 250_000, 40_000, 500_000, 120_000, 350_000, 1_000_000, 20_000, 700_000}
	bulk := []int64{8_000_000}
	return []Workload{
		{"other mix", Unequal(), sizes, 300 * ms},
		{"alike bulk", alike, bulk, 0}, {"alike mix", alike, sizes, 300 * ms},
		{"quick bulk", quick, bulk, 0}, {"quick mix", quick, sizes, 300 * ms},
	}
}

// Verdict compares the completion times of a workload.
type Verdict struct {
	Workload       string          `json:"workload"`
	Kernel         time.Duration   `json:"kernel"` // mean of the transfers, median of the rounds
	Least          time.Duration   `json:"least"`
	Most           time.Duration   `json:"most"`
	Rounds         int             `json:"rounds"`
	Disturbed      int             `json:"disturbed"` // rounds not counted, because the links were late
	Late           time.Duration   `json:"late"`      // of the rounds that count, the worst; 99 of 100 packets were less late
	Simulated      time.Duration   `json:"simulated"`
	Error          float64         `json:"error"` // of the prediction, as a share of the kernel's
	Worst          float64         `json:"worst"` // of one transfer, the largest
	Sizes          []int64         `json:"sizes"`
	KernelSizes    []time.Duration `json:"kernel_sizes"` // medians, transfer by transfer
	SimulatedSizes []time.Duration `json:"simulated_sizes"`
}

// lateMost is how late links may be: what 99 of 100 packets must stay below. A
// round in which the machine did not manage that is repeated.
const lateMost = 3 * time.Millisecond

// Verify carries each workload out in as many rounds, each on a network of its
// own called after prefix and the process, and predicts it. Rounds in which the
// links were late are repeated, at most as many again. What killed processes have
// left is taken away.
func Verify(ctx context.Context, prefix string, workloads []Workload, rounds int, progress func(string)) (all []Verdict, err error) {
	if err := sweep(prefix); err != nil {
		return nil, err
	}
	name := fmt.Sprintf("%s%d", prefix, os.Getpid())
	if err := urgent(); err != nil {
		progress("the links are ordinary processes: " + err.Error())
	} else {
		defer func() { err = errors.Join(err, ordinary()) }()
	}
	for _, w := range workloads {
		v, err := verify(ctx, name, w, rounds, progress)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

// round is one measurement.
type round struct {
	times []time.Duration
	late  time.Duration
}

func verify(ctx context.Context, name string, w Workload, rounds int, progress func(string)) (Verdict, error) {
	predicted, err := Predict(ctx, w.Links, w.Sizes, w.Pause)
	if err != nil {
		return Verdict{}, err
	}
	var good, bad []round
	for len(good) < rounds && len(good)+len(bad) < 2*rounds {
		progress(fmt.Sprintf("%s, round %d of %d", w.Name, len(good)+1, rounds))
		r, err := once(ctx, name, w)
		if err != nil {
			return Verdict{}, err
		}
		if r.late <= lateMost {
			good = append(good, r)
			continue
		}
		bad = append(bad, r)
		progress(fmt.Sprintf("%s: the machine is busy, packets came %s late: once more", w.Name, r.late.Round(time.Millisecond/10)))
	}
	// where the machine was never free enough, the least disturbed have to do
	slices.SortFunc(bad, func(a, b round) int { return cmp.Compare(a.late, b.late) })
	missing := min(rounds-len(good), len(bad))
	return judge(w, append(good, bad[:missing]...), len(bad)-missing, predicted), nil
}

func judge(w Workload, rounds []round, disturbed int, predicted []time.Duration) Verdict {
	v := Verdict{Workload: w.Name, Rounds: len(rounds), Disturbed: disturbed, Sizes: w.Sizes, Simulated: mean(predicted), SimulatedSizes: predicted}
	var means []time.Duration
	for _, r := range rounds {
		means = append(means, mean(r.times))
		v.Late = max(v.Late, r.late)
	}
	for i, p := range predicted {
		var each []time.Duration
		for _, r := range rounds {
			each = append(each, r.times[i])
		}
		k := median(each)
		v.KernelSizes = append(v.KernelSizes, k)
		if e := float64(p)/float64(k) - 1; math.Abs(e) > math.Abs(v.Worst) {
			v.Worst = e
		}
	}
	v.Kernel, v.Least, v.Most = median(means), slices.Min(means), slices.Max(means)
	v.Error = float64(v.Simulated)/float64(v.Kernel) - 1
	return v
}

func once(ctx context.Context, name string, w Workload) (r round, err error) {
	n, err := Build(ctx, name, w.Links)
	if err != nil {
		return round{}, err
	}
	r.times, err = n.Transfer(ctx, w.Sizes, w.Pause)
	if err = errors.Join(err, n.Close()); err != nil {
		return round{}, err
	}
	if late := n.Late(); len(late) > 0 {
		r.late = late[len(late)*99/100]
	}
	return r, nil
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
	fmt.Fprintln(w, "mean completion\tkernel\tleast\tmost\trounds\tsimulated\terror\tworst transfer\tlinks late\t")
	const unit = time.Millisecond / 10
	for _, v := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%+.1f%%\t%+.1f%%\t%s\t\n", v.Workload, v.Kernel.Round(unit), v.Least.Round(unit), v.Most.Round(unit), v.Rounds, v.Simulated.Round(unit), 100*v.Error, 100*v.Worst, v.Late.Round(unit))
	}
	for _, v := range all {
		if len(v.KernelSizes) < 2 {
			continue
		}
		fmt.Fprintf(w, "\n%s, one by one\tbytes\tkernel\tsimulated\terror\t\n", v.Workload)
		for i, k := range v.KernelSizes {
			s := v.SimulatedSizes[i]
			fmt.Fprintf(w, "%d\t%d\t%s\t%s\t%+.1f%%\t\n", i+1, v.Sizes[i], k.Round(unit), s.Round(unit), 100*(float64(s)/float64(k)-1))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, v := range all {
		if v.Disturbed > 0 {
			fmt.Fprintf(out, "\n%s: %d rounds were not counted, because the machine was too busy for the links.\n", v.Workload, v.Disturbed)
		}
		if v.Late > lateMost {
			fmt.Fprintf(out, "\n%s: the machine was too busy, packets came up to %s late. Verify again when it is idle.\n", v.Workload, v.Late.Round(unit))
		}
	}
	return nil
}
