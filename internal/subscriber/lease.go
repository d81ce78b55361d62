package subscriber

import (
	"fmt"
	"net/netip"
	"strings"
)

// What a login had out of the pools is its own, also while it is away: a storm,
// a restart or a reboot gives everybody the same again. Only when nothing else is
// free does another login get it.

// leasesMost bounds how many logins are remembered.
const leasesMost = 1 << 18

// leases are what logins had last.
type leases struct {
	last map[string]lease
	of4  map[netip.Addr]string
	of6  map[netip.Prefix]string
}

func newLeases() leases {
	return leases{map[string]lease{}, map[netip.Addr]string{}, map[netip.Prefix]string{}}
}

// others tell whether an address or prefix is kept for another login.
func (l *leases) others4(a netip.Addr, login string) bool {
	whose, ok := l.of4[a]
	return ok && whose != login
}

func (l *leases) others6(p netip.Prefix, login string) bool {
	whose, ok := l.of6[p]
	return ok && whose != login
}

// remember notes what a login has now; false: it is what is known already.
func (l *leases) remember(login string, g lease) bool {
	if was, ok := l.last[login]; ok && was == g {
		return false
	}
	l.forget(login)
	l.last[login] = g
	if g.ipv4.IsValid() {
		l.forgetOther(l.of4[g.ipv4], login)
		l.of4[g.ipv4] = login
	}
	for _, p := range g.all6() {
		l.forgetOther(l.of6[p], login)
		l.of6[p] = login
	}
	return true
}

// all6 are the IPv6 prefixes, a single address as one of length 128.
func (g lease) all6() []netip.Prefix {
	var list []netip.Prefix
	for _, p := range []netip.Prefix{g.prefix, g.delegated} {
		if p.IsValid() {
			list = append(list, p)
		}
	}
	if g.ipv6.IsValid() {
		list = append(list, netip.PrefixFrom(g.ipv6, 128))
	}
	return list
}

func (l *leases) forgetOther(whose, login string) {
	if whose != "" && whose != login {
		l.forget(whose)
	}
}

func (l *leases) forget(login string) {
	g, ok := l.last[login]
	if !ok {
		return
	}
	delete(l.last, login)
	if l.of4[g.ipv4] == login {
		delete(l.of4, g.ipv4)
	}
	for _, p := range g.all6() {
		if l.of6[p] == login {
			delete(l.of6, p)
		}
	}
}

// remember keeps what a session was given out of pools, for the next time.
func (s *server) remember(one *session, p Profile) {
	g := one.given
	if p.IPv4.IsValid() {
		g.ipv4 = netip.Addr{}
	}
	if p.Prefix.IsValid() {
		g.prefix = netip.Prefix{}
	}
	if p.Delegated.IsValid() {
		g.delegated = netip.Prefix{}
	}
	if one.login == "" || g == (lease{}) || len(s.kept.last) >= leasesMost {
		return
	}
	if s.kept.remember(one.login, g) {
		one.engine.pending.leases[leaseKey(s.Name, one.login)] = g
	}
}

func leaseKey(access, login string) string { return access + "/" + login }

func (g lease) String() string {
	s := fmt.Sprintf("%s;%s;%s", g.ipv4, g.prefix, g.delegated)
	if g.ipv6.IsValid() {
		s += ";" + g.ipv6.String()
	}
	return s
}

// readLease is the reverse of String; what makes no sense is left out.
func readLease(text string) (g lease) {
	ipv4, rest, _ := strings.Cut(text, ";")
	prefix, rest, _ := strings.Cut(rest, ";")
	delegated, ipv6, _ := strings.Cut(rest, ";")
	g.ipv4, _ = netip.ParseAddr(ipv4)
	g.prefix, _ = netip.ParsePrefix(prefix)
	g.delegated, _ = netip.ParsePrefix(delegated)
	g.ipv6, _ = netip.ParseAddr(ipv6)
	return g
}

// toLeases gives the changes of leases.
func toLeases(changed map[string]lease) []Stored {
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
			srv.kept.remember(login, readLease(string(k.Value)))
		}
	}
}
