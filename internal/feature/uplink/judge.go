package uplink

import (
	"net/netip"
	"slices"
	"time"

	"weft/internal/config"
	"weft/internal/state"
)

// Settings are what the probes of one uplink need.
type Settings struct {
	Name      string
	Device    string
	Probe     []netip.Addr // of one family
	Interval  time.Duration
	Failures  int
	Successes int
}

// Equal reports whether nothing has changed.
func (s Settings) Equal(o Settings) bool {
	return s.Name == o.Name && s.Device == o.Device && slices.Equal(s.Probe, o.Probe) && s.Interval == o.Interval && s.Failures == o.Failures && s.Successes == o.Successes
}

// SettingsOf returns the settings of the probes of an uplink in one family; ok is
// false if it is not probed there.
func SettingsOf(f *config.File, facts state.Facts, name string, fam int) (s Settings, ok bool) {
	g, ok := GatewayOf(f, facts, name, fam)
	if !ok {
		return s, false
	}
	c := From(f, name)
	s = Settings{Name: name, Device: g.Device, Interval: c.Interval, Failures: c.Failures, Successes: c.Successes}
	for _, a := range c.Probe {
		if family(a) == fam {
			s.Probe = append(s.Probe, a)
		}
	}
	return s, len(s.Probe) > 0
}

// Judge decides by rounds of probes whether an uplink works. The zero Judge takes it
// for working until it has proof of the opposite.
type Judge struct {
	Down  bool
	Since time.Time // of the last change
	RTT   time.Duration
	// Rounds is how many rounds there were, and Lost how many of them nothing answered.
	Rounds, Lost uint64

	row int // rounds in a row that speak against the present verdict
}

// Round takes the result of one round, in which at least one host answered or none
// did, and reports whether the verdict changed.
func (j *Judge) Round(s Settings, answered bool, rtt time.Duration, now time.Time) (changed bool) {
	j.Rounds++
	if answered {
		if j.RTT == 0 {
			j.RTT = rtt
		}
		j.RTT += (rtt - j.RTT) / 8 // smoothed as TCP does (RFC 6298 section 2)
	} else {
		j.Lost++
	}
	if answered != j.Down {
		j.row = 0
		return false
	}
	j.row++
	limit := s.Failures
	if j.Down {
		limit = s.Successes
	}
	if j.row < limit {
		return false
	}
	j.Down, j.Since, j.row = !j.Down, now, 0
	return true
}
