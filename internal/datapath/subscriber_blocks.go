package datapath

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"sync/atomic"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// ownerBlocks hold the owners of dense pools: 256 neighbours a block
// (bpf/blocks/l2tp_maps.h). What has no neighbourhood, or whose neighbourhood
// has found no free block, is left to the hash tables. Neighbours are all in
// their block, or all outside: programs look at one place only.
type ownerBlocks struct {
	keys   *ebpf.Map
	blocks []blockValue
	used   map[blockKey]*ownerBlock
	free   []uint32
	old    []uint32 // given back; programs may still look into them
}

// ownerBlock is a neighbourhood.
type ownerBlock struct {
	at      uint32
	count   int            // owners in the block
	outside map[owned]bool // in the hash table, because no block was free; else nil
}

// subscribersPerBlock is how many of the largest number of subscribers there
// are to a block.
const subscribersPerBlock = 16

func newOwnerBlocks(keys *ebpf.Map, blocks []blockValue) *ownerBlocks {
	b := &ownerBlocks{keys: keys, blocks: blocks, used: map[blockKey]*ownerBlock{}}
	for i := len(blocks) - 1; i >= 0; i-- {
		b.free = append(b.free, uint32(i))
	}
	return b
}

// blockOf gives the neighbourhood of a prefix and its place there; false: it
// has none.
func blockOf(o owned) (k blockKey, place uint8, ok bool) {
	bits, a := o.prefix.Bits(), o.prefix.Addr()
	var n uint64
	switch {
	case a.Is4() && bits == 32:
		b := a.As4()
		n, k.Family = uint64(binary.BigEndian.Uint32(b[:])), unix.AF_INET
	case a.Is6() && bits >= 8 && bits <= 64:
		b := a.As16()
		n, k.Family = binary.BigEndian.Uint64(b[:])>>(64-bits), unix.AF_INET6
	default:
		return k, 0, false
	}
	k.Net, k.Bits, k.Table = n>>8, uint8(bits), uint16(o.table)
	return k, uint8(n), true
}

// ownedAt is the reverse of blockOf.
func ownedAt(k blockKey, place uint8) owned {
	n := k.Net<<8 | uint64(place)
	if k.Family == unix.AF_INET {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], uint32(n))
		return owned{netip.PrefixFrom(netip.AddrFrom4(b), 32), int(k.Table)}
	}
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], n<<(64-k.Bits))
	return owned{netip.PrefixFrom(netip.AddrFrom16(b), int(k.Bits)), int(k.Table)}
}

// all reads what an earlier process has written, and takes it over.
func (b *ownerBlocks) all(d *Datapath) iter.Seq2[ownedEntry, error] {
	type place struct {
		blockKey
		at uint32
	}
	return func(yield func(ownedEntry, error) bool) {
		taken := map[uint32]bool{}
		for p, err := range entries(d, "l2tp_block_keys", func(k blockKey, at uint32) (place, bool) { return place{k, at}, int(at) < len(b.blocks) }) {
			if err != nil {
				yield(ownedEntry{}, err)
				return
			}
			taken[p.at] = true
			one := &ownerBlock{at: p.at}
			b.used[p.blockKey] = one
			for i := range b.blocks[p.at].Sessions {
				if id := b.blocks[p.at].Sessions[i]; id != 0 {
					one.count++
					if !yield(ownedEntry{ownedAt(p.blockKey, uint8(i)), id, true}, nil) {
						return
					}
				}
			}
		}
		free := b.free[:0]
		for _, at := range b.free {
			if !taken[at] {
				free = append(free, at)
			}
		}
		b.free = free
	}
}

// put writes owners, and gives those that belong into the hash tables.
func (b *ownerBlocks) put(list []owned, owner map[owned]uint16) (rest []owned, err error) {
	for _, o := range list {
		k, place, ok := blockOf(o)
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
		word := &b.blocks[one.at].Sessions[place]
		if atomic.SwapUint32(word, uint32(owner[o])) == 0 {
			one.count++
		}
	}
	return rest, nil
}

// take begins a neighbourhood, in an empty block if there is one.
func (b *ownerBlocks) take(k blockKey) (*ownerBlock, error) {
	if len(b.free) == 0 && len(b.old) > 0 {
		if err := Grace(); err != nil {
			return nil, err
		}
		b.free, b.old = b.old, nil
	}
	one := &ownerBlock{}
	b.used[k] = one
	if len(b.free) == 0 {
		one.outside = map[owned]bool{}
		return one, nil
	}
	one.at = b.free[len(b.free)-1]
	b.free = b.free[:len(b.free)-1]
	b.blocks[one.at] = blockValue{}
	if err := b.keys.Put(k, one.at); err != nil {
		return nil, fmt.Errorf("put subscribers' addresses: %w", err)
	}
	return one, nil
}

// leave notes what an earlier process has put into the hash tables.
func (b *ownerBlocks) leave(o owned) {
	k, _, ok := blockOf(o)
	if !ok {
		return
	}
	one := b.used[k]
	if one == nil {
		one = &ownerBlock{outside: map[owned]bool{}}
		b.used[k] = one
	}
	if one.outside != nil {
		one.outside[o] = true
	}
}

// remove takes owners out, and gives those that are in the hash tables.
func (b *ownerBlocks) remove(list []owned) (rest []owned, err error) {
	for _, o := range list {
		k, place, ok := blockOf(o)
		one := b.used[k]
		switch {
		case !ok || one == nil:
			rest = append(rest, o)
		case one.outside != nil:
			rest = append(rest, o)
			if delete(one.outside, o); len(one.outside) == 0 {
				delete(b.used, k)
			}
		case atomic.SwapUint32(&b.blocks[one.at].Sessions[place], 0) != 0:
			if one.count--; one.count > 0 {
				break
			}
			delete(b.used, k)
			if err := b.keys.Delete(k); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
				return nil, fmt.Errorf("remove subscribers' addresses: %w", err)
			}
			b.old = append(b.old, one.at)
		}
	}
	return rest, nil
}
