package dhcp4server

import (
	"time"

	"weft/internal/limit"
)

// probation is how long the first lease of a new client is while more than half of a pool
// is in use. A client that renews it gets the usual time; the addresses of one that only
// collects them come back soon.
const probation = 2 * time.Minute

// group is clients that are likely to be one attacker's: those of one port of a relay
// agent, else of one maker of network cards, else with addresses of their own making.
type group struct {
	limit.Bucket
	used time.Time
}

const groupsMost = 4096

func groupOf(port, hardware string) string {
	switch {
	case port != "":
		return "port " + port
	case len(hardware) < 3:
		return "other"
	case hardware[0]&2 != 0:
		return "local"
	}
	return hardware[:3]
}

func (s *Server) group(name string, now time.Time) *group {
	g := s.groups[name]
	if g == nil && len(s.groups) >= groupsMost {
		for n, x := range s.groups {
			if now.Sub(x.used) > 2*probation {
				delete(s.groups, n)
			}
		}
		if len(s.groups) >= groupsMost {
			name = "other" // one more than groupsMost
			g = s.groups[name]
		}
	}
	if g == nil {
		g = &group{}
		s.groups[name] = g
	}
	g.used = now
	return g
}

// pressed reports whether so much of a pool is in use that new clients are held to a rate.
func (p *pool) pressed() bool { return 2*p.bound >= p.size }

// admits reports whether a new client may have a lease now. While a pool is pressed, one
// group gets an eighth of its addresses within the time of probation, and all groups
// together a quarter (of a small pool at least 4 and 8): what an attacker collects comes
// back faster than it can collect.
func (s *Server) admits(p *pool, port, hardware string, now time.Time) bool {
	if s.config.PerPort > 0 && port != "" && p.ports[port] >= s.config.PerPort {
		return false
	}
	if !p.pressed() {
		return true
	}
	rate := func(part, least int) limit.Rate {
		n := float64(max(least, p.size/part))
		return limit.Rate{PerSecond: n / probation.Seconds(), Burst: n}
	}
	return s.group(groupOf(port, hardware), now).Take(1, rate(8, 4), now) && p.rate.Take(1, rate(4, 8), now)
}
