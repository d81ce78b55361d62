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

// Blocked is a source that was blocked at run time.
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

// Entries returns the list as the programs want it, each prefix once, in order.
// The longest prefix decides there, so what a prefix inherits from those around
// it is written down with it: a bogon within a blocked prefix is blocked. An
// exception frees from both.
func (l Lists) Entries(now time.Time) []state.GuardEntry {
	n := len(l.Block.Prefixes) + len(l.Block.Except) + len(l.Blocked) + 64
	for _, list := range l.Files {
		n += len(list)
	}
	said := make([]state.GuardEntry, 0, n)
	add := func(p netip.Prefix, listed state.Listed) {
		said = append(said, state.GuardEntry{Prefix: p.Masked(), Listed: listed})
	}
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
	return inherit(once(said), free)
}

// once sorts what is said, and joins what is said of the same prefix.
func once(said []state.GuardEntry) []state.GuardEntry {
	slices.SortFunc(said, func(a, b state.GuardEntry) int {
		return cmp.Or(a.Prefix.Addr().Compare(b.Prefix.Addr()), a.Prefix.Bits()-b.Prefix.Bits())
	})
	entries := said[:0]
	for _, e := range said {
		if last := len(entries) - 1; last >= 0 && entries[last].Prefix == e.Prefix {
			entries[last].Listed |= e.Listed
			continue
		}
		entries = append(entries, e)
	}
	return entries
}

// inherit has each prefix say what those around it say, too.
func inherit(entries []state.GuardEntry, free map[netip.Prefix]state.Listed) []state.GuardEntry {
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

// Mistake is a line of a list that cannot be blocked.
type Mistake struct {
	Line, Column int
	What, Remedy string
}

// Mistakes are the mistakes of a list, one per line, in order, up to mistakesMost.
type Mistakes struct {
	File string
	List []Mistake
	All  int
}

const mistakesMost = 20

func (m *Mistakes) Error() string {
	first := m.List[0]
	text := fmt.Sprintf("%s:%d:%d: %s; %s", m.File, first.Line, first.Column, first.What, first.Remedy)
	if m.All > 1 {
		text += fmt.Sprintf(" (and %d more such lines: weft check lists them)", m.All-1)
	}
	return text
}

// ReadFile reads a list of prefixes or addresses, one a line. It gives those of
// the lines that are right, also where others are not: then the error is a
// *Mistakes.
func ReadFile(name string, r io.Reader) ([]netip.Prefix, error) {
	var list []netip.Prefix
	wrong := &Mistakes{File: name}
	lines := bufio.NewScanner(r)
	n := 1
	for ; lines.Scan(); n++ {
		text := lines.Text()
		if i := strings.IndexAny(text, "#;"); i >= 0 {
			text = text[:i]
		}
		column := 1 + len(text) - len(strings.TrimLeft(text, " \t"))
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		p, mistake := parse(text)
		if mistake == nil {
			list = append(list, p)
			continue
		}
		mistake.Line, mistake.Column = n, column
		if wrong.All++; wrong.All <= mistakesMost {
			wrong.List = append(wrong.List, *mistake)
		}
	}
	if err := lines.Err(); err != nil {
		return list, fmt.Errorf("read %s, line %d: %w", name, n, err)
	}
	if wrong.All > 0 {
		return list, wrong
	}
	return list, nil
}

// parse reads what a line of a list blocks.
func parse(text string) (netip.Prefix, *Mistake) {
	p, err := ParsePrefix(text)
	switch {
	case err == nil && p.Bits() > 0:
		return p, nil
	case err == nil:
		return p, &Mistake{What: text + " contains all addresses", Remedy: "remove the line, or write a longer prefix"}
	case strings.Contains(text, "%"):
		return p, &Mistake{What: err.Error(), Remedy: "write it without %" + text[strings.Index(text, "%")+1:]}
	}
	if fields := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' }); len(fields) > 1 {
		return p, &Mistake{What: fmt.Sprintf("%q has more than one word", shortened(text)), Remedy: "write one address or prefix per line, and comments behind #"}
	}
	if from, to, is := strings.Cut(text, "-"); is {
		if a, err := netip.ParseAddr(from); err == nil {
			if b, err := netip.ParseAddr(to); err == nil && a.BitLen() == b.BitLen() {
				return p, &Mistake{What: fmt.Sprintf("%q is a range", text), Remedy: "write its prefixes, one per line"}
			}
		}
	}
	if strings.Contains(text, "/255.") {
		return p, &Mistake{What: fmt.Sprintf("%q has a mask", text), Remedy: "write the length of the prefix, like 192.0.2.0/24"}
	}
	return p, &Mistake{What: fmt.Sprintf("%q is neither an address nor a prefix", shortened(text)), Remedy: "write it like 192.0.2.1 or 2001:db8::/32, or put # before it"}
}

// shortened is what of a line is shown: a list may be anything.
func shortened(text string) string {
	if len(text) > 60 {
		return text[:60] + "..."
	}
	return text
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
		return netip.Prefix{}, fmt.Errorf("%q is neither an address nor a prefix, like 192.0.2.1 or 2001:db8::/32", text)
	}
	return p.Masked(), nil
}

// Changes returns what makes the list `from` the list `to`. Both are in the order
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
