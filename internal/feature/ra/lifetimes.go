package ra

import (
	"net/netip"
	"slices"
	"time"
)

// bound returns how long what lies in p may be announced or given out at now: as long as the
// file says, and no longer than the delegation that it is part of.
func (s Settings) bound(p netip.Prefix, preferred, valid time.Duration, now time.Time) (_, _ time.Duration) {
	for _, r := range s.Received {
		if !within(p, r.Prefix) {
			continue
		}
		// whole seconds, as messages have them
		preferred = min(preferred, max(r.Preferred.Sub(now).Truncate(time.Second), 0))
		valid = min(valid, max(r.Valid.Sub(now).Truncate(time.Second), 0))
	}
	return min(preferred, valid), valid
}

// bounded reports whether the lifetimes of p count down towards the end of a delegation.
func (s Settings) bounded(p netip.Prefix) bool {
	return slices.ContainsFunc(s.Received, func(r Received) bool { return within(p, r.Prefix) })
}

// at returns the settings with the lifetimes of prefixes as they are at now.
func (s Settings) at(now time.Time) Settings {
	if len(s.Received) == 0 {
		return s
	}
	s.Prefixes = slices.Clone(s.Prefixes)
	for i := range s.Prefixes {
		p := &s.Prefixes[i]
		p.Preferred, p.Valid = s.bound(p.Prefix, p.Preferred, p.Valid, now)
	}
	s.Routes = slices.Clone(s.Routes)
	for i := range s.Routes {
		r := &s.Routes[i]
		_, r.Lifetime = s.bound(r.Prefix, 0, r.Lifetime, now)
	}
	return s
}

// Deprecate returns what is said of a prefix that is announced no more at now.
func (s Settings) Deprecate(p AnnouncedPrefix, now time.Time) Deprecated {
	_, valid := s.bound(p.Prefix, p.Preferred, p.Valid, now)
	return Deprecated{Prefix: p, Until: now.Add(min(max(p.Valid, 0), deprecatedFor)), Valid: now.Add(valid)}
}
