package config

import (
	"testing"
	"time"
)

func TestDurationsHaveDaysAndWeeks(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"30s": 30 * time.Second, "5d": 5 * day, "1w": 7 * day, "1d12h": 36 * time.Hour, "2w3d4h5m": 17*day + 4*time.Hour + 5*time.Minute, "0d": 0, "1h30m": 90 * time.Minute,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%q: %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "5", "5dd", "1d5", "1d-5m", "1d+5m", "-1d", "1.5d", "99999999d", "65535w65535w", "1d1w", "5 d", "5days", "dw"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%q: %s, want an error", text, got)
		}
	}
}
