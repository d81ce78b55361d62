package simulate

import (
	"math"
	"testing"
	"time"
)

func TestFixedPointAgreesWithFloatingPoint(t *testing.T) {
	for _, n := range []uint64{1, 2, 3, 10, 12345, 1 << 40, 1<<63 + 12345, math.MaxUint64} {
		if got, want := float64(log2(n))/(1<<fraction), math.Log2(float64(n)); math.Abs(got-want) > 1e-11 {
			t.Errorf("log2(%d) is %.15f, want %.15f", n, got, want)
		}
	}
	for _, x := range []float64{0, 0.25, 0.5, 1, 1.75, 7.123456, 21.5} {
		if got, want := float64(exp2(int64(x*(1<<fraction))))/(1<<fraction), math.Exp2(x); math.Abs(got/want-1) > 1e-10 {
			t.Errorf("2^%f is %.12f, want %.12f", x, got, want)
		}
	}
	for _, x := range []uint64{0, 1, 7, 8, 26, 27, 1e9, 1e15 - 1, 1e15, 1 << 62, math.MaxUint64} {
		r := cubeRoot(x)
		if r*r*r > x || math.Abs(float64(r)-math.Cbrt(float64(x))) > 1 {
			t.Errorf("the cube root of %d is %d", x, r)
		}
	}
}

func TestDistributionsHaveTheirMoments(t *testing.T) {
	d := newDice(1, "test", 0)
	const n = 1_000_000
	var sum, squares, tail, small float64
	least := int64(math.MaxInt64)
	for range n {
		x := float64(d.exponential(1000_000))
		sum += x
		squares += x * x
		p := d.pareto(3000)
		least = min(least, p)
		if p > 8000 { // (1000/8000)^1.5 = 4.42%
			tail++
		}
		if d.happens(20_000) {
			small++
		}
	}
	mean := sum / n
	near(t, "exponential mean", mean, 1e6, 0.005)
	near(t, "exponential variance", squares/n-mean*mean, 1e12, 0.01)
	near(t, "Pareto tail", tail/n, math.Pow(1.0/8, 1.5), 0.02)
	near(t, "Pareto least", float64(least), 1000, 0.001)
	near(t, "2%", small/n, 0.02, 0.03)
}

func TestUsesOfChanceAreIndependent(t *testing.T) {
	a, b, c := newDice(1, "path", 0), newDice(1, "path", 1), newDice(2, "path", 0)
	for range 100 {
		x, y, z := a.Uint64(), b.Uint64(), c.Uint64()
		if x == y || x == z {
			t.Fatal("two generators agree")
		}
	}
}

func TestHistogramsAreExactToTheirBuckets(t *testing.T) {
	var h Histogram
	for i := range 100_000 {
		h.add(Time(i+1) * time.Microsecond)
	}
	for _, q := range []float64{0.01, 0.5, 0.95, 0.99} {
		near(t, "quantile", float64(h.Quantile(q)), q*1e8, 0.016)
	}
	if h.Mean() != 50_000*time.Microsecond+500 || h.Quantile(1) != 100*ms {
		t.Errorf("mean %s, largest %s", h.Mean(), h.Quantile(1))
	}
	for _, x := range []Time{0, 1, 127, 128, 129, 255, 256, 1e9, 1<<62 + 1} {
		if m := middle(bucket(x)); math.Abs(float64(m-x)) > float64(x)/64+0.5 {
			t.Errorf("%d is in the bucket of %d", x, m)
		}
	}
	var none Histogram
	if none.Mean() != 0 || none.Quantile(0.5) != 0 {
		t.Error("nothing has a mean")
	}
}
