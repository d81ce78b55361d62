package route

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"net/netip"
	"slices"

	"weft/fib"
	"weft/internal/noun"
	"weft/internal/state"
)

// Comparison is what `weft show fib --compare` shows.
type Comparison struct {
	Prefixes  int      `json:"prefixes"`
	Addresses int      `json:"addresses"`
	Same      int      `json:"same"`
	Left      int      `json:"left_to_the_kernel"`
	Differ    int      `json:"differ"`
	Examples  []string `json:"examples,omitempty"`
}

// examplesMax bounds the addresses in the result.
const examplesMax = 20

func comparison() noun.Noun {
	return noun.Of[Source, Comparison]{
		Name: "fib-comparison", Short: "Whether weft's route tables are the kernel's", One: true,
		Long: `With --compare the kernel is asked for every boundary of its routes; where weft
differs, the addresses are printed, and the command fails.`,
		Args:     []noun.Arg{{Name: "compare", Help: "ask the kernel for every boundary of its routes, and say where weft differs", Kind: noun.Switch}},
		Examples: []string{"--compare"},
		Rows: func(ctx context.Context, s Source, _ *noun.Query) iter.Seq2[Comparison, error] {
			return noun.Row(compare(ctx, s))
		},
		Page: func(w io.Writer, rows []Comparison) {
			for _, c := range rows {
				fmt.Fprintf(w, "%d addresses at the boundaries of %d prefixes: %d go the kernel's way, %d are left to the kernel, %d differ\n",
					c.Addresses, c.Prefixes, c.Same, c.Left, c.Differ)
				for _, e := range c.Examples {
					fmt.Fprintln(w, e)
				}
			}
		},
		Faulty: func(c Comparison) bool { return c.Differ > 0 },
	}.Noun()
}

func compare(ctx context.Context, s Source) (out Comparison, err error) {
	l, err := look(s)
	if err != nil {
		return out, err
	}
	defer l.Close()
	prefixes, err := s.Prefixes(ctx)
	if err != nil {
		return out, err
	}
	m, err := s.Matcher()
	if err != nil {
		return out, err
	}
	defer m.Close()
	return (&comparer{looked: l, kernel: m}).compare(ctx, prefixes)
}

// comparer holds weft's main table against the kernel's.
type comparer struct {
	looked
	kernel     Matcher
	tables     [2]*fib.Table // IPv4, IPv6
	hops       map[uint32]NexthopRow
	neighbours []state.KernelNeighbour
}

// compare asks both for the first and the last address of each prefix and for
// those before and behind it. Where they differ it asks again: routes change.
func (c *comparer) compare(ctx context.Context, prefixes []netip.Prefix) (Comparison, error) {
	out := Comparison{Prefixes: len(prefixes)}
	for i := range c.tables {
		t, err := c.table(0, i == 1)
		if err != nil {
			return out, err
		}
		c.tables[i] = t
	}
	if err := c.refresh(ctx); err != nil {
		return out, err
	}
	var doubtful []netip.Addr
	for _, a := range boundaries(prefixes) {
		out.Addresses++
		hop, _, same, err := c.one(ctx, a)
		switch {
		case err != nil:
			return out, err
		case !same:
			doubtful = append(doubtful, a)
		case hop == nil || hop.Kind == state.NexthopStack.String():
			out.Left++
		default:
			out.Same++
		}
	}
	return out, c.again(ctx, doubtful, &out)
}

func (c *comparer) again(ctx context.Context, doubtful []netip.Addr, out *Comparison) error {
	if err := c.refresh(ctx); err != nil {
		return err
	}
	for _, a := range doubtful {
		hop, words, same, err := c.one(ctx, a)
		switch {
		case err != nil:
			return err
		case same:
			out.Same++
			continue
		}
		out.Differ++
		if len(out.Examples) < examplesMax {
			ours := "no route"
			if hop != nil {
				ours = hop.Kind + " " + hop.MAC + " " + hop.Device
			}
			out.Examples = append(out.Examples, fmt.Sprintf("%s: weft has %s, the kernel %s", a, ours, words))
		}
	}
	return nil
}

func (c *comparer) refresh(ctx context.Context) (err error) {
	c.hops = map[uint32]NexthopRow{}
	c.neighbours, err = c.source.Neighbours(ctx)
	return err
}

// one compares one address. The kernel's answer is given in words.
func (c *comparer) one(ctx context.Context, a netip.Addr) (hop *NexthopRow, kernel string, same bool, err error) {
	k, ok, err := c.kernel.Match(ctx, a)
	if err != nil {
		return nil, "", false, err
	}
	if n := c.lookup(a); n != 0 {
		h, known := c.hops[n]
		if !known {
			if h, err = c.nexthop(n); err != nil {
				return nil, "", false, err
			}
			c.hops[n] = h
		}
		hop = &h
	}
	if !ok {
		same, _ = agree(hop, a, nil, nil)
		return hop, "no route", same, nil
	}
	same, _ = agree(hop, a, &k, c.neighbours)
	words := k.Type.String() + " " + k.Prefix.String()
	for _, h := range k.Hops {
		words += " " + c.hopWords(h)
	}
	return hop, words, same, nil
}

// lookup asks weft's table, which another process may be changing: no grace
// period waits for this one, and a block may be gone on the way to it.
func (c *comparer) lookup(a netip.Addr) (n uint32) {
	defer func() {
		if recover() != nil {
			n = 0
		}
	}()
	t := c.tables[0]
	if a.Is6() {
		t = c.tables[1]
	}
	n, _ = t.Lookup(a)
	return n
}

// boundaries returns the addresses at both sides of both ends of each prefix, in
// order, without those that no packet is routed to.
func boundaries(prefixes []netip.Prefix) []netip.Addr {
	var list []netip.Addr
	for _, p := range prefixes {
		first, last := p.Masked().Addr(), lastOf(p)
		for _, a := range []netip.Addr{first.Prev(), first, last, last.Next()} {
			if a.IsValid() && (a.IsGlobalUnicast() || a.IsPrivate()) {
				list = append(list, a)
			}
		}
	}
	slices.SortFunc(list, func(a, b netip.Addr) int { return cmp.Or(cmp.Compare(a.BitLen(), b.BitLen()), a.Compare(b)) })
	return slices.Compact(list)
}

func lastOf(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}
