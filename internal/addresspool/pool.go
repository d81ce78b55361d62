// Package addresspool gives subscribers addresses and prefixes out of pools. A login
// gets the same again when it comes back: its last lease is kept for it, also across a
// restart, and is given to another login only when nothing else is free. It is pure.
package addresspool

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/gaissmai/bart"
)

// Pool is a set of addresses and prefixes.
type Pool struct {
	Name       string
	Addresses  []netip.Prefix // IPv4
	Prefixes   []netip.Prefix // /64 out of these are advertised
	Delegate   []netip.Prefix
	Addresses6 []netip.Prefix
	Only       bool // for users that name it
}

// kind is what is taken out of a pool.
type kind uint8

const (
	address4  kind = iota // IPv4 addresses
	prefix                // /64 that are advertised
	delegated             // prefixes that are delegated
	address6              // single IPv6 addresses
)

func (p *Pool) spaces(k kind) []netip.Prefix {
	switch k {
	case prefix:
		return p.Prefixes
	case delegated:
		return p.Delegate
	case address6:
		return p.Addresses6
	}
	return p.Addresses
}

// Settings are the pools of one section of weft.toml.
type Settings struct {
	Gateway    netip.Addr // of this router, never given
	Pools      []Pool
	Prefixes   []netip.Prefix // /64 out of these are advertised
	Delegate   []netip.Prefix
	Addresses6 []netip.Prefix // single addresses
	Bits       int            // of a delegated prefix
	IPv6       bool
}

// Allocator gives out what the pools of a section hold. H identifies a holder.
type Allocator[H comparable] struct {
	Settings
	own4   map[netip.Addr]bool // users' own, never given to others
	own6   bart.Lite
	taken4 map[netip.Addr]H
	taken6 map[netip.Prefix]H
	kept   leases
	next   map[spaceKey]uint64 // where the search for a free one starts
}

// New returns an allocator without pools.
func New[H comparable]() *Allocator[H] {
	return &Allocator[H]{taken4: map[netip.Addr]H{}, taken6: map[netip.Prefix]H{}, kept: newLeases(), next: map[spaceKey]uint64{}}
}

// Set replaces the pools, and what users have of their own. Holders keep what they hold.
func (a *Allocator[H]) Set(s Settings, own []Lease) {
	a.Settings, a.own4, a.own6 = s, map[netip.Addr]bool{}, bart.Lite{}
	for _, l := range own {
		if l.IPv4.IsValid() {
			a.own4[l.IPv4] = true
		}
		for _, p := range l.Prefixes6() {
			a.own6.Insert(p)
		}
	}
}

// spaces returns what a login's addresses come out of: the pool of that name; if
// it has none of that kind, or no name is said, the section's own and those of
// all pools that need not be named. false: there is no pool of that name.
func (a *Allocator[H]) spaces(k kind, name string) ([]netip.Prefix, bool) {
	var named []netip.Prefix
	known := name == ""
	list := [...][]netip.Prefix{address4: nil, prefix: a.Prefixes, delegated: a.Delegate, address6: a.Addresses6}[k]
	list = slices.Clone(list)
	for i := range a.Pools {
		p := &a.Pools[i]
		if name != "" && p.Name == name {
			known = true
			named = append(named, p.spaces(k)...)
		}
		if !p.Only {
			list = append(list, p.spaces(k)...)
		}
	}
	if !known {
		return nil, false
	}
	if len(named) > 0 {
		return named, true
	}
	return list, true
}

// Request says what a login is to get.
type Request struct {
	Login  string
	Own    Lease // what it has of its own: the pools give the rest
	NoIPv4 bool
	// names of the pools that are asked; empty: any that need not be named
	Pool, PrefixPool, DelegatedPool, Address6Pool string
}

// Find finds what is free for a login, and holds none of it. It fails if IPv4 is to be
// had and none is free. short: there is less IPv6 than the pools should give.
func (a *Allocator[H]) Find(r Request) (got Lease, short bool, err error) {
	if !r.Own.IPv4.IsValid() && !r.NoIPv4 && a.hasIPv4() {
		spaces, known := a.spaces(address4, r.Pool)
		if !known {
			return Lease{}, false, fmt.Errorf("there is no pool %q", r.Pool)
		}
		free, ok := a.freeAddress(r.Login, spaces)
		if !ok {
			return Lease{}, false, fmt.Errorf("no IPv4 address is free%s", inPool(r.Pool))
		}
		got.IPv4 = free
	}
	if !a.IPv6 {
		return got, false, nil
	}
	last := a.kept.last[r.Login]
	take := func(k kind, name string, last netip.Prefix, bits int) netip.Prefix {
		spaces, known := a.spaces(k, name)
		free := a.lastOrFree(last, r.Login, spaces, bits)
		short = short || !free.IsValid() && (len(spaces) > 0 || !known)
		return free
	}
	if !r.Own.Prefix.IsValid() {
		got.Prefix = take(prefix, r.PrefixPool, last.Prefix, 64)
	}
	if !r.Own.Delegated.IsValid() {
		got.Delegated = take(delegated, r.DelegatedPool, last.Delegated, a.Bits)
	}
	if !r.Own.IPv6.IsValid() {
		was := netip.Prefix{}
		if last.IPv6.IsValid() {
			was = netip.PrefixFrom(last.IPv6, 128)
		}
		if p := take(address6, r.Address6Pool, was, 128); p.IsValid() {
			got.IPv6 = p.Addr()
		}
	}
	return got, short, nil
}

func inPool(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf(" in pool %q", name)
}

// hasIPv4 reports whether there is a pool of IPv4 addresses at all.
func (a *Allocator[H]) hasIPv4() bool {
	return slices.ContainsFunc(a.Pools, func(p Pool) bool { return len(p.Addresses) > 0 })
}

// Hold notes that a holder has addresses and prefixes, its own or of the pools.
func (a *Allocator[H]) Hold(h H, l Lease) {
	if l.IPv4.IsValid() {
		a.taken4[l.IPv4] = h
	}
	for _, p := range l.Prefixes6() {
		a.taken6[p] = h
	}
}

// Release takes back what a holder has; what another one holds by now stays.
func (a *Allocator[H]) Release(h H, l Lease) {
	if l.IPv4.IsValid() && a.taken4[l.IPv4] == h {
		delete(a.taken4, l.IPv4)
	}
	for _, p := range l.Prefixes6() {
		if a.taken6[p] == h {
			delete(a.taken6, p)
		}
	}
}

// Holder4 returns the holder of an IPv4 address.
func (a *Allocator[H]) Holder4(addr netip.Addr) (H, bool) {
	h, ok := a.taken4[addr]
	return h, ok
}

// Held gives all holders and what each holds: a lease for each address or prefix.
func (a *Allocator[H]) Held(see func(h H, ipv4 netip.Addr, p netip.Prefix)) {
	for addr, h := range a.taken4 {
		see(h, addr, netip.Prefix{})
	}
	for p, h := range a.taken6 {
		see(h, netip.Addr{}, p)
	}
}

// Remember keeps a lease out of the pools for a login, for the next time; false: there is
// nothing to keep, or it is known already.
func (a *Allocator[H]) Remember(login string, l Lease) bool {
	if login == "" || l == (Lease{}) || len(a.kept.last) >= leasesMost {
		return false
	}
	return a.kept.remember(login, l)
}

// Restore takes over a lease that was remembered.
func (a *Allocator[H]) Restore(login string, l Lease) { a.kept.remember(login, l) }

// Last returns the lease that is kept for a login.
func (a *Allocator[H]) Last(login string) Lease { return a.kept.last[login] }

// Usage says how full a pool is.
type Usage struct {
	Pool  string       `json:"pool"` // its name, or that of the key
	Space netip.Prefix `json:"space"`
	Used  int          `json:"used"`
	Free  float64      `json:"free"` // there can be more than an integer holds
}

// Usage returns how full the pools are.
func (a *Allocator[H]) Usage() (list []Usage) {
	add := func(name string, spaces []netip.Prefix, bits int) {
		for _, space := range spaces {
			u := Usage{Pool: name, Space: space}
			if bits == 32 {
				for addr := range a.taken4 {
					if space.Contains(addr) {
						u.Used++
					}
				}
			}
			for p := range a.taken6 {
				if p.Bits() == bits && bits != 32 && space.Contains(p.Addr()) {
					u.Used++
				}
			}
			u.Free = sizeOf(space, bits) - float64(u.Used)
			list = append(list, u)
		}
	}
	add("prefixes", a.Prefixes, 64)
	add("delegate", a.Delegate, a.Bits)
	add("ipv6_addresses", a.Addresses6, 128)
	for i := range a.Pools {
		p := &a.Pools[i]
		name := p.Name
		if name == "" {
			name = fmt.Sprintf("pools[%d]", i)
		}
		add(name, p.Addresses, 32)
		add(name, p.Prefixes, 64)
		add(name, p.Delegate, a.Bits)
		add(name, p.Addresses6, 128)
	}
	return list
}

// sizeOf is how many of a length are in a space; the first and last address of
// an IPv4 subnet are not given.
func sizeOf(space netip.Prefix, bits int) float64 {
	n := 1.0
	for range bits - space.Bits() {
		n *= 2
	}
	if bits == 32 && n > 2 {
		n -= 2
	}
	return n
}
