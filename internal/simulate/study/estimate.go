package study

import "math"

// Estimate is a mean and how sure it is.
type Estimate struct {
	Mean float64 `json:"mean"`
	Half float64 `json:"half"` // the 95% confidence interval is mean ± half; 0 with a single run
	N    int     `json:"n"`
}

// estimate returns the mean of independent values with Student's confidence
// interval ("Student", "The Probable Error of a Mean", Biometrika 6(1), 1908).
func estimate(values []float64) Estimate {
	n := len(values)
	if n == 0 {
		return Estimate{}
	}
	var sum float64
	for _, v := range values {
		sum += v
	}
	e := Estimate{Mean: sum / float64(n), N: n}
	if n < 2 {
		return e
	}
	var squares float64
	for _, v := range values {
		squares += float64((v - e.Mean) * (v - e.Mean)) // never fused, so that all machines agree
	}
	e.Half = student(n-1) * math.Sqrt(squares/float64(n-1)/float64(n))
	return e
}

// paired returns the relative change from base to values, as a share of the mean
// of base, from the differences of equal seeds: what chance does to both cancels.
func paired(values, base []float64) Estimate {
	mean := estimate(base).Mean
	if mean == 0 || len(values) != len(base) {
		return Estimate{}
	}
	d := make([]float64, len(values))
	for i := range values {
		d[i] = (values[i] - base[i]) / mean
	}
	return estimate(d)
}

// student returns the 97.5% quantile of Student's t distribution: from a table up
// to 30 degrees of freedom, then by Cornish's and Fisher's expansion (M.
// Abramowitz, I. A. Stegun, "Handbook of Mathematical Functions", 26.7.5).
func student(degrees int) float64 {
	table := [...]float64{
		12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281,
		2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860,
		2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423,
	}
	if degrees <= len(table) {
		return table[degrees-1]
	}
	const z = 1.959964
	n := float64(degrees)
	const z2, z3 = (z*z*z + z) / 4, (5*z*z*z*z*z + 16*z*z*z + 3*z) / 96
	return z + z2/n + z3/n/n
}
