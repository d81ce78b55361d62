package api

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"

	"weft/fib"
	"weft/internal/datapath"
	"weft/internal/state"
)

// Matcher is the kernel's own lookup.
type Matcher interface {
	Match(ctx context.Context, a netip.Addr) (state.KernelRoute, bool, error)
}

// Comparison is what `weft show fib --compare` shows.
type Comparison struct {
	Prefixes  int      `json:"prefixes"`
	Addresses int      `json:"addresses"`
	Same      int      `json:"same"`
	Left      int      `json:"left_to_the_kernel"`
	Differ    int      `json:"differ"`
	Examples  []string `json:"examples,omitempty"`
}

// examplesMax bounds the addresses that are told of.
const examplesMax = 20

// Comparer holds weft's main table against the kernel's.
type Comparer struct {
	Routes     *datapath.Routes
	Kernel     Matcher
	Neighbours func(context.Context) ([]state.KernelNeighbour, error)

	tables     [2]*fib.Table // IPv4, IPv6
	hops       map[uint32]Nexthop
	neighbours []state.KernelNeighbour
}

// Compare asks both for the first and the last address of each prefix and for
// those before and behind it. Where they differ it asks again: routes change.
func (c *Comparer) Compare(ctx context.Context, prefixes []netip.Prefix) (Comparison, error) {
	out := Comparison{Prefixes: len(prefixes)}
	for i := range c.tables {
		t, err := viewTable(c.Routes, 0, i == 1)
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

func (c *Comparer) again(ctx context.Context, doubtful []netip.Addr, out *Comparison) error {
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

func (c *Comparer) refresh(ctx context.Context) (err error) {
	c.hops = map[uint32]Nexthop{}
	c.neighbours, err = c.Neighbours(ctx)
	return err
}

// one compares one address. The kernel's answer is given in words.
func (c *Comparer) one(ctx context.Context, a netip.Addr) (hop *Nexthop, kernel string, same bool, err error) {
	k, ok, err := c.Kernel.Match(ctx, a)
	if err != nil {
		return nil, "", false, err
	}
	if n := c.lookup(a); n != 0 {
		h, known := c.hops[n]
		if !known {
			if h, err = nexthopOf(c.Routes, n); err != nil {
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
		words += " " + hopWords(h)
	}
	return hop, words, same, nil
}

// lookup asks weft's table, which another process may be changing: no grace
// period waits for this one, and a block may be gone on the way to it.
func (c *Comparer) lookup(a netip.Addr) (n uint32) {
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

// boundaries gives the addresses at both sides of both ends of each prefix, in
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
