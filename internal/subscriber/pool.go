package subscriber

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
)

// poolKind is what is taken out of a pool.
type poolKind uint8

const (
	pool4         poolKind = iota // IPv4 addresses
	poolPrefix                    // /64 that are advertised
	poolDelegated                 // prefixes that are delegated
	pool6                         // single IPv6 addresses
)

func (p *Pool) spaces(k poolKind) []netip.Prefix {
	switch k {
	case poolPrefix:
		return p.Prefixes
	case poolDelegated:
		return p.Delegate
	case pool6:
		return p.Addresses6
	}
	return p.Addresses
}

// spaces gives what a login's addresses come out of: the pool of that name; if
// it has none of that kind, or no name is said, the section's own and those of
// all pools that need not be named. false: there is no pool of that name.
func (s *server) spaces(k poolKind, name string) ([]netip.Prefix, bool) {
	var named []netip.Prefix
	known := name == ""
	list := [...][]netip.Prefix{pool4: nil, poolPrefix: s.Prefixes, poolDelegated: s.Delegate, pool6: s.Addresses6}[k]
	list = slices.Clone(list)
	for i := range s.Pools {
		p := &s.Pools[i]
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

// assign gives a session its addresses, or says why it gets none: IPv4 was to be
// had and none is free, or another session has what is its own.
func (s *server) assign(one *session, p Profile) (fault string) {
	s.release(one)
	p = s.withDefaults(p)
	one.profile = p
	if fault := s.conflict(one, p); fault != "" {
		return fault
	}
	g := lease{ipv4: p.IPv4, prefix: p.Prefix, delegated: p.Delegated}
	if !g.ipv4.IsValid() && !p.NoIPv4 && s.hasIPv4() {
		spaces, known := s.spaces(pool4, p.Pool)
		if !known {
			return fmt.Sprintf("there is no pool %q", p.Pool)
		}
		a, ok := s.freeAddress(one.login, spaces)
		if !ok {
			return "no IPv4 address is free" + inPool(p.Pool)
		}
		g.ipv4 = a
	}
	if s.IPv6 {
		last, names := s.kept.last[one.login], Pools6{}
		if p.Pools6 != nil {
			names = *p.Pools6
		}
		short := false
		take := func(k poolKind, name string, last netip.Prefix, bits int) netip.Prefix {
			spaces, known := s.spaces(k, name)
			got := s.lastOrFree(last, one.login, spaces, bits)
			short = short || !got.IsValid() && (len(spaces) > 0 || !known)
			return got
		}
		if !g.prefix.IsValid() {
			g.prefix = take(poolPrefix, names.Prefix, last.prefix, 64)
		}
		if !g.delegated.IsValid() {
			g.delegated = take(poolDelegated, names.Delegated, last.delegated, s.Bits)
		}
		if !p.IPv6.IsValid() {
			was := netip.Prefix{}
			if last.ipv6.IsValid() {
				was = netip.PrefixFrom(last.ipv6, 128)
			}
			if a := take(pool6, names.Address, was, 128); a.IsValid() {
				one.profile.IPv6, g.ipv6 = a.Addr(), a.Addr()
			}
		}
		if short {
			one.engine.stats.NoPrefix++
		}
	}
	one.given = g
	s.hold(one)
	s.remember(one, p)
	return ""
}

func inPool(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf(" in pool %q", name)
}

// hasIPv4 tells whether there is a pool of IPv4 addresses at all.
func (s *server) hasIPv4() bool {
	return slices.ContainsFunc(s.Pools, func(p Pool) bool { return len(p.Addresses) > 0 })
}

// conflict tells which of a profile's own addresses another session has.
func (s *server) conflict(one *session, p Profile) string {
	if o := s.taken4[p.IPv4]; p.IPv4.IsValid() && o != nil {
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

// PoolRow says how full a pool is.
type PoolRow struct {
	Access string       `json:"access"`
	Pool   string       `json:"pool"` // its name, or that of the key
	Space  netip.Prefix `json:"space"`
	Used   int          `json:"used"`
	Free   float64      `json:"free"` // there can be more than an integer holds
}

// Pools tells how full the pools of all sections are.
func (e *Engine) Pools() []PoolRow {
	rows := []PoolRow{}
	for _, s := range e.sortedServers() {
		add := func(name string, list []netip.Prefix, bits int) {
			for _, space := range list {
				r := PoolRow{Access: s.Name, Pool: name, Space: space}
				if bits == 32 {
					for a := range s.taken4 {
						if space.Contains(a) {
							r.Used++
						}
					}
				}
				for p := range s.taken6 {
					if p.Bits() == bits && bits != 32 && space.Contains(p.Addr()) {
						r.Used++
					}
				}
				r.Free = sizeOf(space, bits) - float64(r.Used)
				rows = append(rows, r)
			}
		}
		add("prefixes", s.Prefixes, 64)
		add("delegate", s.Delegate, s.Bits)
		add("ipv6_addresses", s.Addresses6, 128)
		for i := range s.Pools {
			p := &s.Pools[i]
			name := orElse(p.Name, fmt.Sprintf("pools[%d]", i))
			add(name, p.Addresses, 32)
			add(name, p.Prefixes, 64)
			add(name, p.Delegate, s.Bits)
			add(name, p.Addresses6, 128)
		}
	}
	return rows
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

// freeAddress gives a free IPv4 address: for one login the same again, as long
// as no other login got it.
func (s *server) freeAddress(login string, spaces []netip.Prefix) (netip.Addr, bool) {
	last := s.kept.last[login].ipv4
	if last.IsValid() && s.taken4[last] == nil && !s.own4[last] && last != s.Gateway &&
		slices.ContainsFunc(spaces, func(p netip.Prefix) bool { return p.Contains(last) }) {
		return last, true
	}
	for _, others := range []bool{false, true} {
		for _, space := range spaces {
			if a, ok := s.freeIn(space, login, others); ok {
				return a, true
			}
		}
	}
	return netip.Addr{}, false
}

// spaceKey says what is taken out of a space.
type spaceKey struct {
	space netip.Prefix
	bits  int
}

// freeIn gives a free address of a space, the next one behind that given last:
// who comes up together is together in the datapath's tables. others: also one that
// a login had that is away.
func (s *server) freeIn(space netip.Prefix, login string, others bool) (netip.Addr, bool) {
	n := uint64(1) << (32 - space.Bits())
	base := binary.BigEndian.Uint32(space.Masked().Addr().AsSlice())
	next := spaceKey{space, 32}
	for i := range n {
		k := uint32((s.next[next] + i) % n)
		if n > 2 && (k == 0 || uint64(k) == n-1) {
			continue // the subnet's own and its broadcast address
		}
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], base+k)
		a := netip.AddrFrom4(b)
		if a != s.Gateway && s.taken4[a] == nil && !s.own4[a] && (others || !s.kept.others4(a, login)) {
			s.next[next] = uint64(k) + 1
			return a, true
		}
	}
	return netip.Addr{}, false
}

func hash(login string, space netip.Prefix) uint64 {
	h := sha256.New()
	h.Write(space.Addr().AsSlice())
	h.Write([]byte(login))
	return binary.BigEndian.Uint64(h.Sum(nil))
}

// prefixTries bounds the search in a space that is nearly full, nearTries that from the
// place on that was given last.
const (
	prefixTries = 65536
	nearTries   = 4096
)

// lastOrFree gives the prefix that a login had, if it still may have it, or else a
// free one; not valid if there is none.
func (s *server) lastOrFree(last netip.Prefix, login string, spaces []netip.Prefix, bits int) netip.Prefix {
	if last.IsValid() && last.Bits() == bits && s.taken6[last] == nil && !s.own6.OverlapsPrefix(last) &&
		slices.ContainsFunc(spaces, func(p netip.Prefix) bool { return p.Bits() <= bits && p.Contains(last.Addr()) }) {
		return last
	}
	p := s.freePrefix(login, spaces, bits, false)
	if !p.IsValid() {
		p = s.freePrefix(login, spaces, bits, true)
	}
	return p
}

func (s *server) freePrefix(login string, spaces []netip.Prefix, bits int, others bool) netip.Prefix {
	for _, space := range spaces {
		if bits < space.Bits() {
			continue
		}
		if p := s.prefixIn(space, login, bits, others); p.IsValid() {
			return p
		}
	}
	return netip.Prefix{}
}

// prefixIn gives a free prefix of a space, the next one as in freeIn, or where there is
// none for long (much of the space is users' own, or kept) one behind a place of the
// login's. Single addresses all come from there: those that follow each other are easy to
// find for strangers (RFC 7707 section 4.1.1).
func (s *server) prefixIn(space netip.Prefix, login string, bits int, others bool) netip.Prefix {
	n := uint64(prefixTries)
	if room := bits - space.Bits(); room < 16 {
		n = 1 << room
	}
	if bits <= 64 {
		next := spaceKey{space, bits}
		for range min(n, nearTries) {
			p := nthPrefix(space, bits, s.next[next])
			s.next[next]++
			if s.free6(p, space, login, others) {
				return p
			}
		}
	}
	start := hash(login, space)
	for i := range n {
		if p := nthPrefix(space, bits, start+i); s.free6(p, space, login, others) {
			return p
		}
	}
	return netip.Prefix{}
}

func (s *server) free6(p, space netip.Prefix, login string, others bool) bool {
	if p.Bits() == 128 && p.Addr() == space.Masked().Addr() {
		return false // every router's (RFC 4291 section 2.6.1)
	}
	return s.taken6[p] == nil && !s.own6.OverlapsPrefix(p) && (others || !s.kept.others6(p, login))
}

// nthPrefix gives the n-th prefix of a length inside a space, round and round.
func nthPrefix(space netip.Prefix, bits int, n uint64) netip.Prefix {
	a := space.Masked().Addr().As16()
	for i := bits - 1; i >= space.Bits() && n != 0; i-- {
		if n&1 == 1 {
			a[i/8] |= 1 << (7 - i%8)
		}
		n >>= 1
	}
	return netip.PrefixFrom(netip.AddrFrom16(a), bits)
}
