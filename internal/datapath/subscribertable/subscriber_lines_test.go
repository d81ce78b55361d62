package subscribertable

import (
	"net/netip"
	"testing"
)

// All addresses of a pool as large as the table has room for sessions are in lines, and
// those follow each other.
func TestADensePoolHasALineForAll(t *testing.T) {
	const subscribers = 1024
	lines := newOwnerLines(make([]lineValue, ownerLinesFor(subscribers)))
	for _, pool := range []string{"10.64.0.0/22", "2001:db8::/46"} {
		p := netip.MustParsePrefix(pool)
		length := min(p.Addr().BitLen(), p.Bits()+10)
		var last uint32
		for i := range subscribers / l2tpNeighbours {
			k, _, ok := lineOf(owned{nthOf(p, length, i*l2tpNeighbours), 0})
			if !ok {
				t.Fatalf("%s: number %d has no neighbourhood", pool, i)
			}
			one, err := lines.take(k)
			if err != nil || one.outside != nil {
				t.Fatalf("%s: line %d is outside, %v", pool, i, err)
			}
			if i > 0 && one.at != last+1 && one.at != last+1-uint32(len(lines.lines)/2) && p.Addr().Is4() {
				t.Errorf("%s: line %d is at %d, the one before at %d", pool, i, one.at, last)
			}
			last = one.at
		}
		for k := range lines.used {
			for place := range uint8(l2tpNeighbours) {
				if again, at, ok := lineOf(ownedAt(k, place)); !ok || again != k || at != place {
					t.Fatalf("%s is %v, %d", ownedAt(k, place).prefix, again, at)
				}
			}
		}
		clear(lines.used)
		clear(lines.taken)
	}
}

func nthOf(p netip.Prefix, length, n int) netip.Prefix {
	b := p.Addr().AsSlice()
	for i := length - 1; n > 0; i-- {
		b[i/8] |= byte(n&1) << (7 - i%8)
		n >>= 1
	}
	a, _ := netip.AddrFromSlice(b)
	return netip.PrefixFrom(a, length)
}
