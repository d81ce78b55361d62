package config

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// ParseDuration is time.ParseDuration with days and weeks before the rest, as in
// "5d", "1w" or "1d12h": a day has 24 hours, whatever the clock does.
func ParseDuration(text string) (time.Duration, error) {
	rest := text
	var total time.Duration
	for _, unit := range []struct {
		name string
		long time.Duration
	}{{"w", 7 * 24 * time.Hour}, {"d", 24 * time.Hour}} {
		number, after, found := strings.Cut(rest, unit.name)
		if !found {
			continue
		}
		n, err := strconv.ParseUint(number, 10, 16)
		if err != nil {
			return 0, errors.New("not a duration: " + strconv.Quote(text))
		}
		total += time.Duration(n) * unit.long
		if total < 0 {
			return 0, errors.New("too long: " + strconv.Quote(text))
		}
		rest = after
	}
	if rest == "" && rest != text {
		return total, nil
	}
	d, err := time.ParseDuration(rest)
	if rest != text && (d < 0 || strings.HasPrefix(rest, "+")) {
		return 0, errors.New("not a duration: " + strconv.Quote(text))
	}
	return total + d, err
}

// Duration is a flag's value that ParseDuration reads.
type Duration time.Duration

func (d *Duration) String() string { return time.Duration(*d).String() }

// Type names the value in a usage line.
func (d *Duration) Type() string { return "duration" }

// Set reads the flag.
func (d *Duration) Set(text string) error {
	v, err := ParseDuration(text)
	if err != nil {
		return errors.New(`like "90m", "12h" or "5d"`)
	}
	*d = Duration(v)
	return nil
}
