package study

import (
	"context"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"weft/internal/simulate"
)

func setup() simulate.Setup {
	return simulate.Setup{
		Seed: 1, End: 2 * time.Second, Scheduler: "lowrtt", Congestion: "cubic", MSS: 1000, InitialWindow: 10, AckEvery: 1,
		Paths:   []simulate.PathSetup{{Name: "a", Rate: 10e6, Delay: time.Millisecond, Queue: 50_000, Loss: simulate.Loss{Good: 10_000}}},
		Sources: []simulate.Source{{Name: "s", Every: 100 * time.Millisecond, Poisson: true, Size: 20_000, Spread: simulate.Exponential}},
	}
}

func TestTheResultDoesNotDependOnTheNumberOfWorkers(t *testing.T) {
	other := setup()
	other.Scheduler = "shortest"
	cases := []Case{{"one", setup()}, {"two", other}}
	var first []Outcome
	for _, workers := range []int{1, 4} {
		calls := 0
		out, err := Run(context.Background(), cases, 5, workers, func(n int) {
			if calls++; n != calls {
				t.Errorf("call %d says %d runs are done", calls, n)
			}
		})
		if err != nil || calls != 10 {
			t.Fatalf("%d runs, %v", calls, err)
		}
		if first == nil {
			first = out
		}
		if !reflect.DeepEqual(first, out) {
			t.Error("results differ")
		}
	}
	if reflect.DeepEqual(first[0].Results[0], first[0].Results[1]) {
		t.Error("two seeds gave one result")
	}
}

func TestAnErrorEndsTheStudy(t *testing.T) {
	bad := setup()
	bad.Congestion = "vegas"
	if _, err := Run(context.Background(), []Case{{"bad", bad}, {"good", setup()}}, 50, 2, nil); err == nil || !strings.Contains(err.Error(), "vegas") {
		t.Errorf("error is %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Run(ctx, []Case{{"good", setup()}}, 50, 2, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
}

func TestEstimates(t *testing.T) {
	// by hand: mean 5, s = 2, t(3) = 3.1824
	e := estimate([]float64{3, 4, 5, 8})
	if want := 3.1824 * math.Sqrt(14.0/3/4); e.Mean != 5 || math.Abs(e.Half-want) > 1e-9 {
		t.Errorf("estimate is %+v, want 5 ± %f", e, want)
	}
	if e := estimate([]float64{7}); e.Half != 0 || e.Mean != 7 {
		t.Errorf("of one value: %+v", e)
	}
	// the differences of pairs are all 10% although the values scatter widely
	if e := paired([]float64{11, 110, 1100}, []float64{10, 100, 1000}); e.Mean < 0.099 || e.Mean > 0.101 {
		t.Errorf("change is %+v", e)
	}
	for degrees, want := range map[int]float64{1: 12.706, 30: 2.042, 40: 2.0211, 60: 2.0003, 120: 1.9799} {
		if got := student(degrees); math.Abs(got-want) > 0.0006 {
			t.Errorf("t(%d) is %f, want %f", degrees, got, want)
		}
	}
}

func TestTablesSayWhatDiffersAndWhatMayBeChance(t *testing.T) {
	value := func(r simulate.Result) float64 { return float64(r.Goodput) }
	outcome := func(name string, values ...int64) (o Outcome) {
		o.Name = name
		for _, v := range values {
			o.Results = append(o.Results, simulate.Result{Goodput: v})
		}
		return o
	}
	rows := Table([]Metric{{Name: "rate", Unit: "bit/s", Value: value}}, []Outcome{
		outcome("base", 190, 200, 210), outcome("less", 170, 181, 189), outcome("chance", 150, 250, 210),
	})
	var out strings.Builder
	if err := Print(&out, rows); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "(-10.0%)") || strings.Count(out.String(), "%)") != 1 {
		t.Errorf("printed\n%s", out.String())
	}
	out.Reset()
	Chart(&out, rows[0])
	if strings.Count(out.String(), "█") == 0 || strings.Count(out.String(), "\n") != 5 {
		t.Errorf("drew\n%s", out.String())
	}
}
