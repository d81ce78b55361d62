package scenario

import (
	"fmt"
	"math/big"
	"strings"
	"time"

	"weft/internal/simulate"
)

type unit struct {
	name   string
	factor int64
}

// quantity reads a decimal number and one of the units. It is exact.
func quantity(text string, units []unit) (int64, bool) {
	for _, u := range units {
		number, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		number = strings.TrimSpace(number)
		if number == "" || strings.ContainsFunc(number, func(r rune) bool { return (r < '0' || r > '9') && r != '.' }) {
			continue
		}
		x, ok := new(big.Rat).SetString(number)
		if !ok {
			continue
		}
		x.Mul(x, new(big.Rat).SetInt64(u.factor))
		if !x.IsInt() || !x.Num().IsInt64() {
			continue
		}
		return x.Num().Int64(), true
	}
	return 0, false
}

// parseRate reads bits a second.
func parseRate(text string) (int64, error) {
	r, ok := quantity(text, []unit{{"Gbit/s", 1e9}, {"Mbit/s", 1e6}, {"kbit/s", 1e3}, {"bit/s", 1}})
	if !ok || r < 1000 || r > 1e12 {
		return 0, fmt.Errorf(`like "20 Mbit/s", from 1 kbit/s to 1000 Gbit/s`)
	}
	return r, nil
}

// parseSize reads bytes; "unlimited" is simulate.Unlimited.
func parseSize(text string) (int64, error) {
	if text == "unlimited" {
		return simulate.Unlimited, nil
	}
	n, ok := quantity(text, []unit{
		{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
		{"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"bytes", 1}, {"B", 1},
	})
	if !ok || n < 1 || n >= simulate.Unlimited {
		return 0, fmt.Errorf(`like "10 MB", "64 KiB" or "300 bytes"`)
	}
	return n, nil
}

// parseShare reads a percentage as parts per million; nothing is 0.
func parseShare(text string) (uint32, error) {
	if text == "" {
		return 0, nil
	}
	n, ok := quantity(text, []unit{{"%", 10_000}})
	if !ok || n > 1_000_000 {
		return 0, fmt.Errorf(`like "0.1%%", in steps of 0.0001%%`)
	}
	return uint32(n), nil
}

// parseSpan reads a time from and to.
func parseSpan(text string) (from, to time.Duration, err error) {
	a, b, ok := strings.Cut(text, "-")
	if ok {
		if from, err = time.ParseDuration(strings.TrimSpace(a)); err == nil {
			to, err = time.ParseDuration(strings.TrimSpace(b))
		}
	}
	if !ok || err != nil || from < 0 || to <= from {
		return 0, 0, fmt.Errorf(`like "10s-20s", the end behind the beginning`)
	}
	return from, to, nil
}
