package route

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/netip"
	"strconv"
	"strings"

	"weft/fib"
	"weft/internal/noun"
	"weft/internal/state"
)

// Answer is what `weft show route ADDRESS` shows.
type Answer struct {
	Address string        `json:"address"`
	Table   int           `json:"table"`
	Prefix  string        `json:"prefix,omitempty"`
	Nexthop *NexthopRow   `json:"nexthop,omitempty"` // nil: no route, the kernel answers
	Steps   []string      `json:"steps"`
	Kernel  *KernelAnswer `json:"kernel"`
	Agree   bool          `json:"agree"`
	Verdict string        `json:"verdict"`
}

// NexthopRow is a next hop as the programs see it.
type NexthopRow struct {
	Number  uint32       `json:"number"`
	Kind    string       `json:"kind"`
	Device  string       `json:"device,omitempty"` // that frames leave by
	Tags    string       `json:"tags,omitempty"`
	MAC     string       `json:"mac,omitempty"`
	MTU     uint32       `json:"mtu,omitempty"`
	Members []NexthopRow `json:"members,omitempty"`
	Weight  int          `json:"weight,omitempty"` // as a member

	entry state.NeighbourEntry
}

// KernelAnswer is the kernel's own route.
type KernelAnswer struct {
	Prefix string   `json:"prefix,omitempty"`
	Type   string   `json:"type"`
	Hops   []string `json:"hops,omitempty"`
}

// routeLookup takes a lookup apart in the daemon, which knows that nothing changes meanwhile.
func routeLookup() noun.Noun {
	return noun.Of[MirrorSource, fib.Explanation]{
		Name: "route-lookup", Hidden: true, From: noun.Daemon, One: true, Short: "A lookup of the mirror, taken apart", Args: routeArgs(),
		Rows: func(ctx context.Context, m MirrorSource, q *noun.Query) iter.Seq2[fib.Explanation, error] {
			a, err := addressOf(q)
			if err != nil {
				return noun.List[fib.Explanation](nil, err)
			}
			return noun.Row(m.Explain(ctx, q.Number("table"), a))
		},
	}.Noun()
}

func routeArgs() []noun.Arg {
	return []noun.Arg{
		{Name: "address", Help: "one address", Word: true, Needed: true},
		{Name: "table", Help: "number of the table: 0 is the main one, VRFs follow", Kind: noun.Number},
	}
}

func addressOf(q *noun.Query) (netip.Addr, error) {
	a, err := netip.ParseAddr(q.Text("address"))
	if err != nil || a.Zone() != "" {
		return a, fmt.Errorf("%q is not an IP address: weft show route takes one, like 192.0.2.1 or 2001:db8::1", q.Text("address"))
	}
	return a.Unmap(), nil
}

func showRoute() noun.Noun {
	return noun.Of[Source, Answer]{
		Name: "route", Short: "Explain the way to an address", From: noun.Both, One: true,
		Long: `Look an address up in weft's own route table (see [route]) and say what is
found: the prefix, the next hop, the way through the structure, what the kernel
has for the address, and whether both agree. A next hop "stack" means that the
kernel forwards, because weft does not know the neighbour's link address, or
because the route is of a kind that is not mirrored.`,
		Args: routeArgs(), Examples: []string{"192.0.2.1", "2001:db8::1 --json"},
		Rows: func(ctx context.Context, s Source, q *noun.Query) iter.Seq2[Answer, error] {
			return noun.Row(answerRow(ctx, s, q))
		},
		Page: answerPage,
	}.Noun()
}

func answerRow(ctx context.Context, s Source, q *noun.Query) (out Answer, err error) {
	a, err := addressOf(q)
	if err != nil {
		return out, err
	}
	l, err := look(s)
	if err != nil {
		return out, err
	}
	defer l.Close()
	e, err := l.explain(ctx, q, a)
	if err != nil {
		return out, err
	}
	kernel, err := l.match(ctx, a)
	if err != nil {
		return out, err
	}
	neighbours, err := s.Neighbours(ctx)
	if err != nil {
		return out, err
	}
	return l.answer(q.Number("table"), a, e, kernel, neighbours)
}

// explain takes a lookup apart: the daemon does it if it runs, for it knows that nothing changes
// meanwhile; otherwise nothing does.
func (l looked) explain(ctx context.Context, q *noun.Query, a netip.Addr) (e fib.Explanation, err error) {
	table := q.Number("table")
	err = q.Ask(ctx, "route-lookup", map[string]string{"table": strconv.Itoa(table), "address": a.String()}, &e)
	if !errors.Is(err, noun.ErrNoDaemon) {
		return e, err
	}
	t, err := l.table(table, a.Is6())
	if err != nil {
		return e, err
	}
	return t.Explain(a), nil
}

// match returns the kernel's own route for an address, nil if it has none.
func (l looked) match(ctx context.Context, a netip.Addr) (*state.KernelRoute, error) {
	m, err := l.source.Matcher()
	if err != nil {
		return nil, err
	}
	defer m.Close()
	k, ok, err := m.Match(ctx, a)
	if err != nil || !ok {
		return nil, err
	}
	return &k, nil
}

// answer puts together what weft and the kernel have for an address.
// neighbours are the kernel's, to tell whether both mean the same way.
func (l looked) answer(table int, a netip.Addr, e fib.Explanation, k *state.KernelRoute, neighbours []state.KernelNeighbour) (Answer, error) {
	out := Answer{Address: a.String(), Table: table, Steps: steps(e)}
	if e.Value != 0 {
		hop, err := l.nexthop(e.Value)
		if err != nil {
			return out, err
		}
		out.Nexthop, out.Prefix = &hop, e.Prefix.String()
	}
	if k != nil {
		out.Kernel = &KernelAnswer{Type: k.Type.String()}
		if k.Prefix.IsValid() {
			out.Kernel.Prefix = k.Prefix.String()
		}
		for _, h := range k.Hops {
			out.Kernel.Hops = append(out.Kernel.Hops, l.hopWords(h))
		}
	}
	out.Agree, out.Verdict = agree(out.Nexthop, a, k, neighbours)
	return out, nil
}

func (l looked) hopWords(h state.KernelHop) string {
	words := "dev " + l.source.DeviceName(h.Device)
	if h.Gateway.IsValid() {
		words = fmt.Sprintf("via %s %s", h.Gateway, words)
	}
	if h.Weight > 1 {
		words += fmt.Sprintf(" weight %d", h.Weight)
	}
	return words
}

func steps(e fib.Explanation) []string {
	list := []string{}
	for _, s := range e.Steps {
		line := fmt.Sprintf("%-7s at word %d", s.Kind, s.Offset)
		switch s.Kind {
		case fib.KindRoot, fib.KindNode:
			line += fmt.Sprintf(", after %d bits, slot %d", s.Depth, s.Slot)
		case fib.KindJump:
			line += fmt.Sprintf(", after %d bits", s.Depth)
		}
		if s.Match.IsValid() {
			line += fmt.Sprintf(": %s so far", s.Match)
		}
		list = append(list, line)
	}
	return list
}

// nexthop reads a next hop with all that it leads to.
func (l looked) nexthop(number uint32) (NexthopRow, error) {
	h := l.Nexthop(number)
	out := NexthopRow{Number: number, Kind: h.Kind.String()}
	switch h.Kind {
	case state.NexthopNeighbour:
		e, err := l.NeighbourAt(h.Index)
		if err != nil {
			return out, err
		}
		out.entry, out.Device, out.Tags, out.MTU = e, l.source.DeviceName(int(e.IfIndex)), e.Tags.String(), e.MTU
		out.MAC = state.MACString(e.Dst)
	case state.NexthopGroup:
		members, err := l.GroupAt(h.Index)
		if err != nil {
			return out, err
		}
		place := map[uint32]int{}
		for _, n := range members {
			if i, seen := place[n]; seen {
				out.Members[i].Weight++
				continue
			}
			m, err := l.nexthop(n)
			if err != nil {
				return out, err
			}
			m.Weight = 1
			place[n] = len(out.Members)
			out.Members = append(out.Members, m)
		}
	}
	return out, nil
}

// agree reports whether a packet takes the way that the kernel has for it.
func agree(hop *NexthopRow, a netip.Addr, k *state.KernelRoute, neighbours []state.KernelNeighbour) (bool, string) {
	switch {
	case hop == nil && k == nil:
		return true, "neither has a route; the kernel answers"
	case hop == nil:
		return true, "left to the kernel, whose tables have more"
	case hop.Kind == state.NexthopStack.String():
		return true, "left to the kernel"
	case k == nil:
		return false, "weft has a route, and the kernel has none"
	}
	same := false
	switch k.Type {
	case state.RouteLocal, state.RouteBroadcast, state.RouteAnycast, state.RouteMulticast:
		same = hop.Kind == state.NexthopLocal.String()
	case state.RouteBlackhole:
		same = hop.Kind == state.NexthopBlackhole.String()
	case state.RouteUnreachable, state.RouteProhibit:
		same = hop.Kind == state.NexthopUnreachable.String()
	case state.RouteUnicast:
		same = sameNeighbours(hop, a, k, neighbours)
	}
	if !same {
		return false, "weft and the kernel have different ways"
	}
	return true, "weft and the kernel have the same way"
}

func sameNeighbours(hop *NexthopRow, a netip.Addr, k *state.KernelRoute, neighbours []state.KernelNeighbour) bool {
	macs := map[[6]byte]bool{}
	for _, h := range k.Hops {
		gateway := h.Gateway
		if !gateway.IsValid() {
			gateway = a
		}
		for _, n := range neighbours {
			if n.Device == h.Device && n.Addr == gateway && n.State.Usable() {
				macs[n.MAC] = true
			}
		}
	}
	ways := hop.Members
	if len(ways) == 0 {
		ways = []NexthopRow{*hop}
	}
	for _, w := range ways {
		toKernel := w.Kind == state.NexthopStack.String()
		toOneOfThem := w.Kind == state.NexthopNeighbour.String() && macs[w.entry.Dst]
		if !toKernel && !toOneOfThem {
			return false
		}
	}
	return true
}

func answerPage(t io.Writer, rows []Answer) {
	for _, a := range rows {
		a.print(t)
	}
}

func (a Answer) print(t io.Writer) {
	fmt.Fprintf(t, "address\t%s\n", a.Address)
	fmt.Fprintf(t, "prefix\t%s\n", noun.Dash(a.Prefix))
	if a.Nexthop == nil {
		fmt.Fprint(t, "next hop\tnone: the kernel decides\n")
	} else {
		fmt.Fprintf(t, "next hop\t%s\n", nexthopWords(*a.Nexthop))
		for _, m := range a.Nexthop.Members {
			fmt.Fprintf(t, "\t%d of the flows: %s\n", m.Weight, nexthopWords(m))
		}
	}
	for i, s := range a.Steps {
		name := ""
		if i == 0 {
			name = "way"
		}
		fmt.Fprintf(t, "%s\t%s\n", name, s)
	}
	kernel := "no route"
	if k := a.Kernel; k != nil {
		kernel = strings.TrimSpace(fmt.Sprintf("%s %s %s", k.Type, k.Prefix, strings.Join(k.Hops, ", ")))
	}
	fmt.Fprintf(t, "kernel\t%s\n", kernel)
	agree := "yes"
	if !a.Agree {
		agree = "NO"
	}
	fmt.Fprintf(t, "agreed\t%s: %s\n", agree, a.Verdict)
}

func nexthopWords(h NexthopRow) string {
	words := fmt.Sprintf("%d %s", h.Number, h.Kind)
	if h.Device != "" {
		words += fmt.Sprintf(" %s dev %s mtu %d", h.MAC, h.Device, h.MTU)
	}
	if h.Tags != "" {
		words += " " + h.Tags
	}
	return words
}
