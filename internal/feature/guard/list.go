package guard

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"weft/internal/state"
)

// Bogons are the prefixes that no source on the Internet has: those of the
// special-purpose address registries (RFC 6890 and its updates) that are not
// globally reachable. Multicast is never a source. 64:ff9b::/96 is reachable,
// and so are 6to4 and Teredo where they still exist.
func Bogons() []netip.Prefix {
	var list []netip.Prefix
	for _, p := range []string{
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
		"192.0.0.0/24", "192.0.2.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
		"224.0.0.0/4", "240.0.0.0/4",
		"::/8", "100::/64", "2001::/23", "2001:db8::/32", "3fff::/20", "5f00::/16", "fc00::/7", "fec0::/10", "ff00::/8",
	} {
		list = append(list, netip.MustParsePrefix(p))
	}
	return list
}

// reachable are parts of bogons that sources do have: anycast of the registry
// (RFC 7723, RFC 8155, RFC 9374), AS112 (RFC 7535), Teredo (RFC 4380), the
// translation prefixes (RFC 6052, RFC 8215).
func reachable() []netip.Prefix {
	var list []netip.Prefix
	for _, p := range []string{
		"192.0.0.9/32", "192.0.0.10/32", "64:ff9b::/96", "2001::/32", "2001:1::1/128", "2001:1::2/128", "2001:1::3/128",
		"2001:3::/32", "2001:4:112::/48", "2001:20::/28", "2001:30::/28",
	} {
		list = append(list, netip.MustParsePrefix(p))
	}
	return list
}

// Blocked is a source that somebody has blocked while the router runs.
type Blocked struct {
	Prefix netip.Prefix `json:"prefix"`
	Until  time.Time    `json:"until,omitzero"` // zero: until it is taken back
	Reason string       `json:"reason,omitempty"`
}

// Lists is everything that the list of the programs is made of.
type Lists struct {
	Block   *Block
	Files   [][]netip.Prefix
	Blocked []Blocked
	Bogons  bool
}

// Entries gives the list as the programs want it, each prefix once, in order.
// The longest prefix decides there, so what a prefix inherits from those around
// it is written down with it: a bogon within a blocked prefix is blocked. An
// exception frees from both.
func (l Lists) Entries(now time.Time) []state.GuardEntry {
	said := map[netip.Prefix]state.Listed{}
	add := func(p netip.Prefix, listed state.Listed) { said[p.Masked()] |= listed }
	for _, list := range append([][]netip.Prefix{l.Block.Prefixes}, l.Files...) {
		for _, p := range list {
			add(p, state.ListedBlocked)
		}
	}
	for _, b := range l.Blocked {
		if b.Until.IsZero() || b.Until.After(now) {
			add(b.Prefix, state.ListedBlocked)
		}
	}
	free := map[netip.Prefix]state.Listed{} // what an exception frees from
	if l.Bogons {
		for _, p := range Bogons() {
			add(p, state.ListedBogon)
		}
		for _, p := range reachable() {
			add(p, 0)
			free[p] = state.ListedBogon
		}
	}
	for _, p := range l.Block.Except {
		add(p, 0)
		free[p.Masked()] = state.ListedBlocked | state.ListedBogon
	}
	return inherit(said, free)
}

func inherit(said, free map[netip.Prefix]state.Listed) []state.GuardEntry {
	entries := make([]state.GuardEntry, 0, len(said))
	for p, listed := range said {
		entries = append(entries, state.GuardEntry{Prefix: p, Listed: listed})
	}
	slices.SortFunc(entries, func(a, b state.GuardEntry) int {
		return cmp.Or(a.Prefix.Addr().Compare(b.Prefix.Addr()), a.Prefix.Bits()-b.Prefix.Bits())
	})
	// a prefix follows those around it, which are the stack
	var around []state.GuardEntry
	for i := range entries {
		e := &entries[i]
		for len(around) > 0 && !around[len(around)-1].Prefix.Overlaps(e.Prefix) {
			around = around[:len(around)-1]
		}
		own := e.Listed
		if len(around) > 0 {
			own |= around[len(around)-1].Listed
		}
		e.Listed = own &^ free[e.Prefix]
		around = append(around, *e)
	}
	return entries
}

// ReadFile reads a list of prefixes or addresses, one a line. An error names
// the line.
func ReadFile(name string, r io.Reader) ([]netip.Prefix, error) {
	var list []netip.Prefix
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		text := lines.Text()
		if i := strings.IndexAny(text, "#;"); i >= 0 {
			text = text[:i]
		}
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		p, err := ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, n, err)
		}
		list = append(list, p)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return list, nil
}

// ParsePrefix reads a prefix, or an address as one of full length. Bits beyond
// the length are not taken for a mistake: lists have them.
func ParsePrefix(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		if a.Zone() != "" {
			return netip.Prefix{}, fmt.Errorf("%q has a zone; a source is blocked on all interfaces", text)
		}
		return netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil || p.Addr().Is4In6() {
		return netip.Prefix{}, fmt.Errorf("%q is no address and no prefix, like 192.0.2.1 or 2001:db8::/32", text)
	}
	return p.Masked(), nil
}

// Changes tells what makes the list `from` the list `to`. Both are in the order
// of Entries.
func Changes(from, to []state.GuardEntry) (put []state.GuardEntry, gone []netip.Prefix) {
	order := func(a, b state.GuardEntry) int {
		return cmp.Or(a.Prefix.Addr().Compare(b.Prefix.Addr()), a.Prefix.Bits()-b.Prefix.Bits())
	}
	for len(from) > 0 || len(to) > 0 {
		switch {
		case len(to) == 0 || len(from) > 0 && order(from[0], to[0]) < 0:
			gone, from = append(gone, from[0].Prefix), from[1:]
		case len(from) == 0 || order(from[0], to[0]) > 0:
			put, to = append(put, to[0]), to[1:]
		default:
			if from[0] != to[0] {
				put = append(put, to[0])
			}
			from, to = from[1:], to[1:]
		}
	}
	return put, gone
}
