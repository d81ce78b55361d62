package subscribertable

import (
	"encoding/binary"
	"iter"
	"math/bits"
	"net/netip"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"weft/internal/datapath"
)

// ownerLines hold the owners of dense pools: 16 neighbours a cache line
// (bpf/blocks/l2tp_maps.h). Prefixes without a neighbourhood, or whose neighbourhood
// found both its places taken, are in the hash tables. Neighbours are all in their
// line, or all outside: programs look in one place only.
type ownerLines struct {
	lines []lineValue
	used  map[lineKey]*ownerLine
	taken map[uint32]bool
	old   map[uint32]lineKey // former keys of freed lines; programs may still read them
}

// ownerLine is a neighbourhood.
type ownerLine struct {
	at      uint32
	count   int            // owners in the line
	outside map[owned]bool // in the hash table, because no place was free; else nil
}

// lineKey identifies the neighbourhood of a line.
type lineKey struct {
	net uint64
	of  uint32 // l2tp_line_of() of bpf/blocks/l2tp_owner.h
}

// ownerLinesFor is the number of lines for that many subscribers: those of as many
// consecutive addresses, and as many again for all others. It is a power of two.
func ownerLinesFor(subscribers int) uint32 {
	return 2 << bits.Len(uint(max(subscribers/l2tpNeighbours, 1)-1))
}

func newOwnerLines(lines []lineValue) *ownerLines {
	return &ownerLines{lines: lines, used: map[lineKey]*ownerLine{}, taken: map[uint32]bool{}, old: map[uint32]lineKey{}}
}

// places are the two possible places of a neighbourhood's line, as in
// l2tp_in_line().
func (b *ownerLines) places(k lineKey) [2]uint32 {
	half := uint32(len(b.lines) / 2)
	salt := uint64(k.of) * datapath.HashGolden
	return [2]uint32{
		uint32(k.net+(k.net>>12+salt)*datapath.HashSpread>>40) & (half - 1),
		uint32((k.net+salt)*datapath.HashSpread>>40)&(half-1) + half,
	}
}

// lineOf returns the neighbourhood of a prefix and its place there; false: it has
// none.
func lineOf(o owned) (k lineKey, place uint8, ok bool) {
	length, a := o.prefix.Bits(), o.prefix.Addr()
	var n uint64
	family := uint32(unix.AF_INET)
	switch {
	case a.Is4() && length == 32:
		b := a.As4()
		n = uint64(binary.BigEndian.Uint32(b[:]))
	case a.Is6() && length >= 8 && length <= 64:
		b := a.As16()
		n, family = binary.BigEndian.Uint64(b[:])>>(64-length), unix.AF_INET6
	default:
		return k, 0, false
	}
	k = lineKey{n / l2tpNeighbours, uint32(o.table) | uint32(length)<<16 | family<<24}
	return k, uint8(n % l2tpNeighbours), true
}

// ownedAt is the reverse of lineOf.
func ownedAt(k lineKey, place uint8) owned {
	n, table, length := k.net*l2tpNeighbours+uint64(place), int(k.of&0xffff), int(k.of>>16&0xff)
	if k.of>>24 == unix.AF_INET {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], uint32(n))
		return owned{netip.PrefixFrom(netip.AddrFrom4(b), 32), table}
	}
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], n<<(64-length))
	return owned{netip.PrefixFrom(netip.AddrFrom16(b), length), table}
}

// all reads the entries of an earlier process, and takes them over.
func (b *ownerLines) all() iter.Seq2[ownedEntry, error] {
	return func(yield func(ownedEntry, error) bool) {
		for at := range b.lines {
			line := &b.lines[at]
			if line.Of == 0 {
				continue
			}
			k := lineKey{line.Net, line.Of}
			one := &ownerLine{at: uint32(at)}
			b.used[k], b.taken[one.at] = one, true
			for i, id := range line.Sessions {
				if id == 0 {
					continue
				}
				one.count++
				if !yield(ownedEntry{ownedAt(k, uint8(i)), uint32(id), true}, nil) {
					return
				}
			}
		}
	}
}

// put writes owners, and returns those that belong into the hash tables.
func (b *ownerLines) put(list []owned, owner map[owned]uint16) (rest []owned, err error) {
	for _, o := range list {
		k, place, ok := lineOf(o)
		if !ok {
			rest = append(rest, o)
			continue
		}
		one := b.used[k]
		if one == nil {
			if one, err = b.take(k); err != nil {
				return nil, err
			}
		}
		if one.outside != nil {
			one.outside[o] = true
			rest = append(rest, o)
			continue
		}
		if b.set(one, place, owner[o]) == 0 {
			one.count++
		}
	}
	return rest, nil
}

// set writes one owner, and returns the former one. Only one process writes.
func (b *ownerLines) set(one *ownerLine, place uint8, id uint16) (was uint16) {
	at := &b.lines[one.at].Sessions[place%l2tpNeighbours]
	was, *at = *at, id
	return was
}

// take allocates a line for a neighbourhood, if one of its places is free.
func (b *ownerLines) take(k lineKey) (*ownerLine, error) {
	one := &ownerLine{}
	b.used[k] = one
	for _, at := range b.places(k) {
		if b.taken[at] {
			continue
		}
		// programs that read their own former line find no owner there: it may be
		// given back at once
		if who, there := b.old[at]; there && who != k {
			if err := datapath.Grace(); err != nil {
				return nil, err
			}
			clear(b.old)
		}
		delete(b.old, at)
		one.at, b.taken[at] = at, true
		line := &b.lines[at]
		line.Net, line.Sessions = k.net, [l2tpNeighbours]uint16{}
		atomic.StoreUint32(&line.Of, k.of)
		return one, nil
	}
	one.outside = map[owned]bool{}
	return one, nil
}

// leave records an owner that an earlier process has put into the hash tables.
func (b *ownerLines) leave(o owned) {
	k, _, ok := lineOf(o)
	if !ok {
		return
	}
	one := b.used[k]
	if one == nil {
		one = &ownerLine{outside: map[owned]bool{}}
		b.used[k] = one
	}
	if one.outside != nil {
		one.outside[o] = true
	}
}

// remove removes owners, and returns those that are in the hash tables.
func (b *ownerLines) remove(list []owned) (rest []owned) {
	for _, o := range list {
		k, place, ok := lineOf(o)
		one := b.used[k]
		switch {
		case !ok || one == nil:
			rest = append(rest, o)
		case one.outside != nil:
			rest = append(rest, o)
			if delete(one.outside, o); len(one.outside) == 0 {
				delete(b.used, k)
			}
		case b.set(one, place, 0) != 0:
			if one.count--; one.count > 0 {
				break
			}
			atomic.StoreUint32(&b.lines[one.at].Of, 0)
			delete(b.used, k)
			delete(b.taken, one.at)
			b.old[one.at] = k
		}
	}
	return rest
}
