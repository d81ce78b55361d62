package addresspool

import (
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"slices"
)

// freeAddress returns a free IPv4 address: for one login the same again, as long
// as no other login got it.
func (a *Allocator[H]) freeAddress(login string, spaces []netip.Prefix) (netip.Addr, bool) {
	last := a.kept.last[login].IPv4
	if last.IsValid() && !a.held4(last) && !a.own4[last] && last != a.Gateway &&
		slices.ContainsFunc(spaces, func(p netip.Prefix) bool { return p.Contains(last) }) {
		return last, true
	}
	for _, others := range []bool{false, true} {
		for _, space := range spaces {
			if free, ok := a.freeIn(space, login, others); ok {
				return free, true
			}
		}
	}
	return netip.Addr{}, false
}

func (a *Allocator[H]) held4(addr netip.Addr) bool {
	_, held := a.taken4[addr]
	return held
}

func (a *Allocator[H]) held6(p netip.Prefix) bool {
	_, held := a.taken6[p]
	return held
}

// spaceKey says what is taken out of a space.
type spaceKey struct {
	space netip.Prefix
	bits  int
}

// freeIn returns a free address of a space, the next one behind that given last:
// who comes up together is together in the datapath's tables. others: also one that
// a login had that is away.
func (a *Allocator[H]) freeIn(space netip.Prefix, login string, others bool) (netip.Addr, bool) {
	n := uint64(1) << (32 - space.Bits())
	base := binary.BigEndian.Uint32(space.Masked().Addr().AsSlice())
	next := spaceKey{space, 32}
	for i := range n {
		k := uint32((a.next[next] + i) % n)
		if n > 2 && (k == 0 || uint64(k) == n-1) {
			continue // the subnet's own and its broadcast address
		}
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], base+k)
		addr := netip.AddrFrom4(b)
		if addr != a.Gateway && !a.held4(addr) && !a.own4[addr] && (others || !a.kept.others4(addr, login)) {
			a.next[next] = uint64(k) + 1
			return addr, true
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

// lastOrFree returns the prefix that a login had, if it still may have it, or else a
// free one; not valid if there is none.
func (a *Allocator[H]) lastOrFree(last netip.Prefix, login string, spaces []netip.Prefix, bits int) netip.Prefix {
	if last.IsValid() && last.Bits() == bits && !a.held6(last) && !a.own6.OverlapsPrefix(last) &&
		slices.ContainsFunc(spaces, func(p netip.Prefix) bool { return p.Bits() <= bits && p.Contains(last.Addr()) }) {
		return last
	}
	p := a.freePrefix(login, spaces, bits, false)
	if !p.IsValid() {
		p = a.freePrefix(login, spaces, bits, true)
	}
	return p
}

func (a *Allocator[H]) freePrefix(login string, spaces []netip.Prefix, bits int, others bool) netip.Prefix {
	for _, space := range spaces {
		if bits < space.Bits() {
			continue
		}
		if p := a.prefixIn(space, login, bits, others); p.IsValid() {
			return p
		}
	}
	return netip.Prefix{}
}

// prefixIn returns a free prefix of a space, the next one as in freeIn, or where there is
// none for long (much of the space is users' own, or kept) one behind a place of the
// login's. Single addresses all come from there: those that follow each other are easy to
// find for strangers (RFC 7707 section 4.1.1).
func (a *Allocator[H]) prefixIn(space netip.Prefix, login string, bits int, others bool) netip.Prefix {
	n := uint64(prefixTries)
	if room := bits - space.Bits(); room < 16 {
		n = 1 << room
	}
	if bits <= 64 {
		next := spaceKey{space, bits}
		for range min(n, nearTries) {
			p := nthPrefix(space, bits, a.next[next])
			a.next[next]++
			if a.free6(p, space, login, others) {
				return p
			}
		}
	}
	start := hash(login, space)
	for i := range n {
		if p := nthPrefix(space, bits, start+i); a.free6(p, space, login, others) {
			return p
		}
	}
	return netip.Prefix{}
}

func (a *Allocator[H]) free6(p, space netip.Prefix, login string, others bool) bool {
	if p.Bits() == 128 && p.Addr() == space.Masked().Addr() {
		return false // every router's (RFC 4291 section 2.6.1)
	}
	return !a.held6(p) && !a.own6.OverlapsPrefix(p) && (others || !a.kept.others6(p, login))
}

// nthPrefix returns the n-th prefix of a length inside a space, round and round.
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
