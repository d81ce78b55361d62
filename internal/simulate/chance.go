package simulate

import (
	"math/bits"
	"math/rand/v2"
)

// dice is one independent stream of chance. What it gives is the same on any
// machine.
type dice struct{ rand.PCG }

// newDice returns the dice of one use; whatever other uses exist, and however
// often they draw, does not change it.
func newDice(seed uint64, use string, index int) *dice {
	// FNV-1a over the name of the use keeps the generators apart.
	h := uint64(14695981039346656037)
	for i := range len(use) {
		h = (h ^ uint64(use[i])) * 1099511628211
	}
	h = (h ^ uint64(index)) * 1099511628211
	d := &dice{}
	d.Seed(seed, h)
	// Seeds that differ in few bits give first values that do, too.
	for range 4 {
		d.Uint64()
	}
	return d
}

// below returns a number of 0..n-1; n > 0. The bias is n in 2^64.
func (d *dice) below(n int64) int64 {
	hi, _ := bits.Mul64(d.Uint64(), uint64(n))
	return int64(hi)
}

// happens is true with so many parts per million.
func (d *dice) happens(ppm uint32) bool {
	return ppm > 0 && d.below(1_000_000) < int64(ppm)
}

// exponential returns a number of the exponential distribution with that mean, by
// inversion: -ln(u) mean.
func (d *dice) exponential(mean int64) int64 {
	// -ln(u) = (64 - log2(U)) ln 2 for u = U / 2^64
	x := 64<<fraction - log2(d.Uint64()|1)
	return mulDiv(mulDiv(x, ln2, 1<<fraction), mean, 1<<fraction)
}

// pareto returns a number of the Pareto distribution of shape 3/2 with that mean.
// Its least value is a third of the mean.
func (d *dice) pareto(mean int64) int64 {
	// least u^(-2/3) = least 2^(2/3 (64 - log2(U)))
	x := (64<<fraction - log2(d.Uint64()|1)) * 2 / 3
	return mulDiv(exp2(x), max(1, mean/3), 1<<fraction)
}

// fraction is the number of bits behind the binary point of fixed numbers.
const fraction = 40

// ln2 is the natural logarithm of 2 in fixed point.
const ln2 = 762123384786

// log2 returns the binary logarithm of n > 0 in fixed point, a bit each time the
// mantissa is squared (D. E. Knuth, TAOCP 1, 1.2.2, exercise 28).
func log2(n uint64) int64 {
	whole := bits.Len64(n) - 1
	m := n << (63 - whole) // 1.63 fixed point, in [1, 2)
	result := int64(whole)
	for range fraction {
		hi, lo := bits.Mul64(m, m) // 2.126
		result <<= 1
		if hi>>63 == 1 {
			result |= 1
			m = hi
		} else {
			m = hi<<1 | lo>>63
		}
	}
	return result
}

// exp2 returns 2^x for a fixed number from 0 to below 2^62, in fixed point,
// the largest number where that does not fit.
func exp2(x int64) int64 {
	whole := x >> fraction
	if whole >= 62-fraction {
		return 1<<63 - 1
	}
	result := uint64(1) << 62 // 2.62
	root := squareRoot(2 << 62)
	for bit := fraction - 1; bit >= 0; bit-- {
		if x>>bit&1 == 1 {
			hi, lo := bits.Mul64(result, root)
			result = hi<<2 | lo>>62
		}
		root = squareRoot(root)
	}
	return int64(result >> (62 - fraction - whole))
}

// squareRoot returns the root of a 2.62 fixed number from 1 to below 4.
func squareRoot(x uint64) uint64 {
	// digit by digit over x * 2^62
	hi, lo := x>>2, x<<62
	var root uint64
	for bit := uint64(1) << 62; bit != 0; bit >>= 1 {
		try := root | bit
		h, l := bits.Mul64(try, try)
		if h < hi || h == hi && l <= lo {
			root = try
		}
	}
	return root
}

// cubeRoot returns the whole part of the cube root, digit by digit.
func cubeRoot(x uint64) uint64 {
	var root uint64
	for bit := uint64(1) << 21; bit != 0; bit >>= 1 {
		try := root | bit
		if hi, lo := bits.Mul64(try*try, try); hi == 0 && lo <= x {
			root = try
		}
	}
	return root
}

// mulDiv returns a*b/c without overflow in between, and the largest number where
// the result does not fit. None may be negative; c must not be 0.
func mulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi == 0 {
		return int64(min(lo/uint64(c), 1<<63-1))
	}
	if hi >= uint64(c) {
		return 1<<63 - 1
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(min(q, 1<<63-1))
}
