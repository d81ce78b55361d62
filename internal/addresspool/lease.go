package addresspool

import (
	"fmt"
	"net/netip"
	"strings"
)

// leasesMost bounds how many logins are remembered.
const leasesMost = 1 << 18

// Lease is what a login has.
type Lease struct {
	IPv4      netip.Addr
	Prefix    netip.Prefix // advertised
	Delegated netip.Prefix
	IPv6      netip.Addr // a single address
}

// Prefixes6 are the IPv6 prefixes, a single address as one of length 128.
func (l Lease) Prefixes6() []netip.Prefix {
	var list []netip.Prefix
	for _, p := range []netip.Prefix{l.Prefix, l.Delegated} {
		if p.IsValid() {
			list = append(list, p)
		}
	}
	if l.IPv6.IsValid() {
		list = append(list, netip.PrefixFrom(l.IPv6, 128))
	}
	return list
}

func (l Lease) String() string {
	s := fmt.Sprintf("%s;%s;%s", l.IPv4, l.Prefix, l.Delegated)
	if l.IPv6.IsValid() {
		s += ";" + l.IPv6.String()
	}
	return s
}

// ParseLease is the reverse of String. Fields that cannot be parsed are left out.
func ParseLease(text string) (l Lease) {
	ipv4, rest, _ := strings.Cut(text, ";")
	prefix, rest, _ := strings.Cut(rest, ";")
	delegated, ipv6, _ := strings.Cut(rest, ";")
	l.IPv4, _ = netip.ParseAddr(ipv4)
	l.Prefix, _ = netip.ParsePrefix(prefix)
	l.Delegated, _ = netip.ParsePrefix(delegated)
	l.IPv6, _ = netip.ParseAddr(ipv6)
	return l
}

// leases are the last lease of each login.
type leases struct {
	last map[string]Lease
	of4  map[netip.Addr]string
	of6  map[netip.Prefix]string
}

func newLeases() leases {
	return leases{map[string]Lease{}, map[netip.Addr]string{}, map[netip.Prefix]string{}}
}

// others4 reports whether an address is kept for another login.
func (l *leases) others4(a netip.Addr, login string) bool {
	whose, ok := l.of4[a]
	return ok && whose != login
}

func (l *leases) others6(p netip.Prefix, login string) bool {
	whose, ok := l.of6[p]
	return ok && whose != login
}

// remember notes the lease of a login; false: it is known already.
func (l *leases) remember(login string, g Lease) bool {
	if was, ok := l.last[login]; ok && was == g {
		return false
	}
	l.forget(login)
	l.last[login] = g
	if g.IPv4.IsValid() {
		l.forgetOther(l.of4[g.IPv4], login)
		l.of4[g.IPv4] = login
	}
	for _, p := range g.Prefixes6() {
		l.forgetOther(l.of6[p], login)
		l.of6[p] = login
	}
	return true
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
	if l.of4[g.IPv4] == login {
		delete(l.of4, g.IPv4)
	}
	for _, p := range g.Prefixes6() {
		if l.of6[p] == login {
			delete(l.of6, p)
		}
	}
}
