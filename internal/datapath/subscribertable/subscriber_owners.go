package subscribertable

import (
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"slices"

	"github.com/cilium/ebpf"

	"weft/internal/datapath"
	"weft/internal/state"
)

// ownedEntry is an address or prefix with its session.
type ownedEntry struct {
	owned
	session uint32
	inLine  bool
}

// allOwned iterates over the tables of owners.
func (s *Subscribers) allOwned() iter.Seq2[ownedEntry, error] {
	four := datapath.Entries(s.d.core, "l2tp_owners4", func(k ownerKey4, id uint32) (ownedEntry, bool) { return ownedEntry{decodeOwner4(k), id, false}, true })
	six := datapath.Entries(s.d.core, "l2tp_owners6", func(k ownerKey6, id uint32) (ownedEntry, bool) { return ownedEntry{decodeOwner6(k), id, false}, true })
	return func(yield func(ownedEntry, error) bool) {
		for _, seq := range []iter.Seq2[ownedEntry, error]{four, six, s.lines.all()} {
			for o, err := range seq {
				if !yield(o, err) {
					return
				}
			}
		}
	}
}

func (s *Subscribers) count(o owned, by int) {
	family := 0
	if o.prefix.Addr().Is6() {
		family = 1
	}
	s.counts[family][o.prefix.Bits()] += by
}

// ownedBy lists the addresses and prefixes of a session, each once.
func (s *Subscribers) ownedBy(x state.L2TPSession) []owned {
	list := make([]owned, 0, len(x.Prefixes)+2)
	add := func(p netip.Prefix) {
		o := owned{p, s.tables[x.LNS]}
		if p.IsValid() && !slices.Contains(list, o) {
			list = append(list, o)
		}
	}
	for _, a := range []netip.Addr{x.IPv4, x.IPv6} {
		if a.IsValid() {
			add(netip.PrefixFrom(a, a.BitLen()))
		}
	}
	for _, p := range x.Prefixes {
		add(p.Masked())
	}
	return list
}

// readTables reads the route table of each access, if any was written since.
func (s *Subscribers) readTables() error {
	written := s.d.core.Applied()
	if s.tables != nil && s.fresh == written {
		return nil
	}
	lnses, err := s.d.LNSes()
	if err != nil {
		return err
	}
	s.tables, s.fresh = map[int]int{}, written
	for _, a := range lnses {
		s.tables[a.ID] = a.Table
	}
	return nil
}

func (s *Subscribers) writeOwned(list []owned) error {
	if len(list) == 0 {
		return nil
	}
	if err := s.writeLengths(); err != nil {
		return err
	}
	rest, err := s.lines.put(list, s.owner)
	if err != nil {
		return err
	}
	four, six := byFamily(rest)
	if err := updateAll(s.own4, four, func(o owned) (ownerKey4, uint32) { return encodeOwner4(o), uint32(s.owner[o]) }); err != nil {
		return fmt.Errorf("put subscribers' addresses: %w", err)
	}
	if err := updateAll(s.own6, six, func(o owned) (ownerKey6, uint32) { return encodeOwner6(o), uint32(s.owner[o]) }); err != nil {
		return fmt.Errorf("put subscribers' addresses: %w", err)
	}
	return nil
}

func (s *Subscribers) deleteOwned(list []owned) error {
	for _, o := range s.lines.remove(list) {
		var err error
		if o.prefix.Addr().Is4() {
			err = s.own4.Delete(encodeOwner4(o))
		} else {
			err = s.own6.Delete(encodeOwner6(o))
		}
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("remove subscriber's %s: %w", o.prefix, err)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return s.writeLengths()
}

// writeLengths writes the prefix lengths that programs look up.
func (s *Subscribers) writeLengths() error {
	var v lengthsValue
	for family, into := range []*[16]uint8{&v.Bits4, &v.Bits6} {
		n := 0
		for bits := 128; bits >= 0; bits-- {
			if s.counts[family][bits] == 0 {
				continue
			}
			if n == len(into) {
				return fmt.Errorf("put subscribers' prefixes: more than %d different lengths of prefixes", len(into))
			}
			into[n] = uint8(bits)
			n++
		}
		for ; n < len(into); n++ {
			into[n] = 255
		}
	}
	if s.lengths != nil && *s.lengths == v {
		return nil
	}
	if err := s.n.Put(uint32(0), v); err != nil {
		return fmt.Errorf("write lengths of prefixes: %w", err)
	}
	s.lengths = &v
	return nil
}
