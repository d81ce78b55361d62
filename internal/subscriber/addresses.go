package subscriber

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"weft/internal/addresspool"
)

// own are the addresses and prefixes that a profile itself gives.
func (p Profile) own() addresspool.Lease {
	return addresspool.Lease{IPv4: p.IPv4, Prefix: p.Prefix, Delegated: p.Delegated, IPv6: p.IPv6}
}

// assign sets the addresses of a session, or says why it gets none: IPv4 was to be
// had and none is free, or another session has what is its own.
func (s *server) assign(one *session, p Profile) (fault string) {
	s.release(one)
	p = s.withDefaults(p)
	one.profile = p
	if fault := s.conflict(one, p); fault != "" {
		return fault
	}
	r := addresspool.Request{Login: one.login, Own: p.own(), NoIPv4: p.NoIPv4, Pool: p.Pool}
	if n := p.Pools6; n != nil {
		r.PrefixPool, r.DelegatedPool, r.Address6Pool = n.Prefix, n.Delegated, n.Address
	}
	got, short, err := s.pools.Find(r)
	if err != nil {
		return err.Error()
	}
	if short {
		one.engine.stats.NoPrefix++
	}
	if got.IPv6.IsValid() {
		one.profile.IPv6 = got.IPv6
	}
	one.given = addresspool.Lease{
		IPv4: orElse(p.IPv4, got.IPv4), Prefix: orElse(p.Prefix, got.Prefix), Delegated: orElse(p.Delegated, got.Delegated), IPv6: got.IPv6,
	}
	s.hold(one)
	if s.pools.Remember(one.login, got) {
		one.engine.pending.leases[leaseKey(s.Name, one.login)] = got
	}
	return ""
}

// conflict returns which of a profile's own addresses another session has.
func (s *server) conflict(one *session, p Profile) string {
	if p.IPv4.IsValid() && (p.IPv4 == s.Gateway || slices.ContainsFunc(s.Listen, func(at netip.AddrPort) bool { return at.Addr() == p.IPv4 })) {
		return fmt.Sprintf("%s is an address of this router", p.IPv4)
	}
	if o, held := s.pools.Holder4(p.IPv4); p.IPv4.IsValid() && held {
		return fmt.Sprintf("%s is that of session %d", p.IPv4, o.local)
	}
	own := append([]netip.Prefix{p.Prefix, p.Delegated}, p.Routes...)
	if p.IPv6.IsValid() {
		own = append(own, netip.PrefixFrom(p.IPv6, 128))
	}
	for _, n := range own {
		if !n.IsValid() {
			continue
		}
		if o, ok := s.destined.Get(n); ok && o != one {
			return fmt.Sprintf("%s is that of session %d", n, o.local)
		}
	}
	return ""
}

// held is what a session holds: as given, with the single IPv6 address of its profile.
func (s *session) held() addresspool.Lease {
	l := s.given
	l.IPv6 = s.profile.IPv6
	return l
}

// destinations are the prefixes whose packets belong to a session.
func (s *session) destinations() []netip.Prefix {
	list := s.held().Prefixes6()
	if a := s.given.IPv4; a.IsValid() {
		list = append(list, netip.PrefixFrom(a, 32))
	}
	return append(list, s.profile.Routes...)
}

// hold notes that a session has what it was given.
func (s *server) hold(one *session) {
	s.logins[one.login] = append(s.logins[one.login], one)
	s.pools.Hold(one, one.held())
	for _, p := range one.destinations() {
		s.destined.Insert(p, one)
	}
}

// release takes back what a session has.
func (s *server) release(one *session) {
	s.pools.Release(one, one.held())
	for _, p := range one.destinations() {
		if o, ok := s.destined.Get(p); ok && o == one {
			s.destined.Delete(p)
		}
	}
	rest := slices.DeleteFunc(s.logins[one.login], func(o *session) bool { return o == one })
	if s.logins[one.login] = rest; len(rest) == 0 {
		delete(s.logins, one.login)
	}
	one.given = addresspool.Lease{}
}

// PoolRow says how full a pool is.
type PoolRow struct {
	LNS string `json:"lns"`
	addresspool.Usage
}

// Pools returns how full the pools of all sections are.
func (e *Engine) Pools() []PoolRow {
	rows := []PoolRow{}
	for _, s := range e.sortedServers() {
		for _, u := range s.pools.Usage() {
			rows = append(rows, PoolRow{s.Name, u})
		}
	}
	return rows
}

func leaseKey(access, login string) string { return access + "/" + login }

// toLeases returns the changes of leases.
func toLeases(changed map[string]addresspool.Lease) []Stored {
	list := make([]Stored, 0, len(changed))
	for key, g := range changed {
		list = append(list, Stored{Key: key, Value: []byte(g.String())})
	}
	return list
}

// RestoreLeases takes over what logins had, after Set and before Restore.
func (e *Engine) RestoreLeases(kept []Stored) {
	for _, k := range kept {
		access, login, _ := strings.Cut(k.Key, "/")
		if srv := e.servers[access]; srv != nil && login != "" {
			srv.pools.Restore(login, addresspool.ParseLease(string(k.Value)))
		}
	}
}
