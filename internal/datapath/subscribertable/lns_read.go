package subscribertable

import (
	"errors"
	"net/netip"
	"slices"

	"weft/internal/state"
)

// LNSTables reads the programs' tables of subscribers; another process may write
// them meanwhile.
func (d Table) LNSTables() (t state.LNSTables, err error) {
	if t.LNSes, err = d.LNSes(); err != nil {
		return t, err
	}
	s := &Subscribers{d: d}
	if err := s.mapTables(); err != nil {
		return t, errors.Join(err, s.Close())
	}
	defer s.Close()
	prefixes := map[uint16][]netip.Prefix{}
	for o, err := range s.allOwned() {
		if err != nil {
			return t, err
		}
		prefixes[uint16(o.session)] = append(prefixes[uint16(o.session)], o.prefix)
	}
	if t.Tunnels, t.Sessions, err = s.read(); err != nil {
		return t, err
	}
	for i := range t.Sessions {
		x := &t.Sessions[i]
		for _, p := range prefixes[x.Local] {
			if !p.IsSingleIP() || p.Addr() != x.IPv4 && p.Addr() != x.IPv6 {
				x.Prefixes = append(x.Prefixes, p)
			}
		}
		slices.SortFunc(x.Prefixes, netip.Prefix.Compare)
	}
	return t, nil
}
