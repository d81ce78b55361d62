package translate

import (
	"net/netip"
	"slices"
)

// Mapping is one explicit address mapping (RFC 7757 section 3.1). The IPv4
// suffix (32 minus the prefix length) may be shorter than the IPv6 suffix
// (128 minus the prefix length), never longer.
type Mapping struct {
	IPv6, IPv4 netip.Prefix
	IPv4Nodes  bool // the nodes speak IPv4, and IPv6 is how others see them
}

// valid reports whether the mapping can be applied both ways.
func (m Mapping) valid() bool {
	return m.IPv4.IsValid() && m.IPv6.IsValid() && m.IPv4.Addr().Is4() && m.IPv6.Addr().Is6() &&
		32-m.IPv4.Bits() <= 128-m.IPv6.Bits()
}

// to6 appends the IPv4 suffix to the IPv6 prefix; what is left is zero
// (RFC 7757 section 3.3.1).
func (m Mapping) to6(v4 netip.Addr) netip.Addr {
	out, in := m.IPv6.Addr().As16(), v4.As4()
	copyBits(out[:], m.IPv6.Bits(), in[:], m.IPv4.Bits(), 32-m.IPv4.Bits())
	return netip.AddrFrom16(out)
}

// to4 appends the leading bits of the IPv6 suffix to the IPv4 prefix; the
// surplus bits are discarded (RFC 7757 section 3.3.2).
func (m Mapping) to4(v6 netip.Addr) netip.Addr {
	out, in := m.IPv4.Addr().As4(), v6.As16()
	copyBits(out[:], m.IPv4.Bits(), in[:], m.IPv6.Bits(), 32-m.IPv4.Bits())
	return netip.AddrFrom4(out)
}

// copyBits sets n bits of dst from bit at on to those of src from bit from on.
// The bits of dst must be zero before.
func copyBits(dst []byte, at int, src []byte, from, n int) {
	for i := range n {
		bit := src[(from+i)/8] >> (7 - (from+i)%8) & 1
		dst[(at+i)/8] |= bit << (7 - (at+i)%8)
	}
}

// Table translates addresses: the longest matching explicit mapping first
// (RFC 7757 section 3.3), then the RFC 6052 prefix, if there is one. It is not
// changed after NewTable, so any number of goroutines may use it.
type Table struct {
	prefix   netip.Prefix
	mappings []Mapping
	by6, by4 matcher
}

// matcher finds the longest prefix: one hash look-up for each length in use.
type matcher struct {
	lengths []int // descending
	entries map[netip.Prefix]Mapping
}

// NewTable builds a table. prefix may be the zero Prefix: then there are only
// the mappings. Mappings that cannot be applied (wrong family, IPv4 suffix
// longer than the IPv6 suffix) are left out, and of two with the same prefix
// the first counts; the configuration refuses both before they come here.
func NewTable(prefix netip.Prefix, mappings []Mapping) *Table {
	t := &Table{
		by6: matcher{entries: make(map[netip.Prefix]Mapping, len(mappings))},
		by4: matcher{entries: make(map[netip.Prefix]Mapping, len(mappings))},
	}
	if _, ok := embedAt(prefix.Bits()); ok && prefix.Addr().Is6() {
		t.prefix = prefix.Masked()
	}
	for _, m := range mappings {
		if !m.valid() {
			continue
		}
		m.IPv6, m.IPv4 = m.IPv6.Masked(), m.IPv4.Masked()
		t.mappings = append(t.mappings, m)
		t.by6.add(m.IPv6, m)
		t.by4.add(m.IPv4, m)
	}
	return t
}

// Prefix returns the RFC 6052 prefix, the zero Prefix if there is none.
func (t *Table) Prefix() netip.Prefix { return t.prefix }

// Mappings returns the explicit mappings in the order they were given.
func (t *Table) Mappings() []Mapping { return slices.Clone(t.mappings) }

func (m *matcher) add(key netip.Prefix, value Mapping) {
	if _, taken := m.entries[key]; taken {
		return
	}
	m.entries[key] = value
	if !slices.Contains(m.lengths, key.Bits()) {
		m.lengths = append(m.lengths, key.Bits())
		slices.SortFunc(m.lengths, func(a, b int) int { return b - a })
	}
}

func (m *matcher) find(a netip.Addr) (Mapping, bool) {
	for _, bits := range m.lengths {
		key, err := a.Prefix(bits)
		if err != nil {
			return Mapping{}, false
		}
		if found, ok := m.entries[key]; ok {
			return found, true
		}
	}
	return Mapping{}, false
}

// To4 returns the IPv4 address that stands for v6.
func (t *Table) To4(v6 netip.Addr) (netip.Addr, bool) {
	if !v6.Is6() {
		return netip.Addr{}, false
	}
	if m, ok := t.by6.find(v6); ok {
		return m.to4(v6), true
	}
	return Extract(t.prefix, v6)
}

// To6 returns the IPv6 address that stands for v4.
func (t *Table) To6(v4 netip.Addr) (netip.Addr, bool) {
	if !v4.Is4() {
		return netip.Addr{}, false
	}
	if m, ok := t.by4.find(v4); ok {
		return m.to6(v4), true
	}
	return t.embed(v4)
}

func (t *Table) embed(v4 netip.Addr) (netip.Addr, bool) {
	if !t.prefix.IsValid() {
		return netip.Addr{}, false
	}
	v6 := Embed(t.prefix, v4)
	return v6, v6.IsValid()
}

// nodes4 reports whether an explicit mapping of IPv6 nodes covers v4.
func (t *Table) nodes4(v4 netip.Addr) bool {
	m, ok := t.by4.find(v4)
	return ok && !m.IPv4Nodes
}

// remote6 is To6 for the far end of a packet whose near end is near. If both
// ends have mappings of IPv6 nodes the packet is being hairpinned, and the far
// end must appear by the prefix (RFC 7757 section 4.2.1): its peer knows it so.
func (t *Table) remote6(far, near netip.Addr) (netip.Addr, bool) {
	if t.prefix.IsValid() && t.nodes4(far) && t.nodes4(near) {
		return t.embed(far)
	}
	return t.To6(far)
}
