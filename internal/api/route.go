package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"weft/fib"
	"weft/internal/datapath"
	"weft/internal/feature/route"
	"weft/internal/state"
)

// RouteSource is the daemon's mirror of the routes. An error says that there
// is none.
type RouteSource interface {
	Explain(ctx context.Context, table int, a netip.Addr) (fib.Explanation, error)
	FIB(ctx context.Context) (FIB, error)
	Mirror(ctx context.Context) (Mirror, error)
}

// Mirror is how the mirror of the routes is doing.
type Mirror struct {
	Status   *route.Status // nil if it was too busy to tell
	Listings uint64        // of all routes: at the start, and whenever news may lack
	Behind   time.Duration // how long news of the kernel have been waiting by now
}

// FIB is what `weft show fib` shows.
type FIB struct {
	Tables []FIBTable    `json:"tables"`
	Mirror *route.Status `json:"mirror,omitempty"` // nil while the daemon is down
	// why weft's tables are not asked, by family; empty if they are
	Suspended map[string]string `json:"suspended,omitempty"`
}

// FIBTable is one table of one family.
type FIBTable struct {
	Number int       `json:"table"`
	Kernel uint32    `json:"kernel_table,omitempty"`
	Stats  fib.Stats `json:"stats"`
	Bytes  int       `json:"bytes"`
}

// RouteAnswer is what `weft show route ADDRESS` shows.
type RouteAnswer struct {
	Address string        `json:"address"`
	Table   int           `json:"table"`
	Prefix  string        `json:"prefix,omitempty"`
	Nexthop *Nexthop      `json:"nexthop,omitempty"` // nil: no route, the kernel answers
	Steps   []string      `json:"steps"`
	Kernel  *KernelAnswer `json:"kernel"`
	Agree   bool          `json:"agree"`
	Verdict string        `json:"verdict"`
}

// Nexthop is a next hop as the programs see it.
type Nexthop struct {
	Number  uint32    `json:"number"`
	Kind    string    `json:"kind"`
	Device  string    `json:"device,omitempty"` // that frames leave by
	Tags    string    `json:"tags,omitempty"`
	MAC     string    `json:"mac,omitempty"`
	MTU     uint32    `json:"mtu,omitempty"`
	Members []Nexthop `json:"members,omitempty"`
	Weight  int       `json:"weight,omitempty"` // as a member

	entry state.NeighbourEntry
}

// KernelAnswer is the kernel's own route.
type KernelAnswer struct {
	Prefix string   `json:"prefix,omitempty"`
	Type   string   `json:"type"`
	Hops   []string `json:"hops,omitempty"`
}

// ErrNotRouting says that weft has no route tables.
var ErrNotRouting = errors.New("weft has no route tables here: weft.toml has no [route], or they are not filled yet")

// AskExplain takes a lookup apart: the daemon does it if it runs, for it knows
// that nothing changes meanwhile; otherwise nothing does.
func AskExplain(ctx context.Context, socket string, r *datapath.Routes, table int, a netip.Addr) (fib.Explanation, error) {
	var e fib.Explanation
	err := AskPath(ctx, socket, fmt.Sprintf("/v1/route?table=%d&address=%s", table, a), &e)
	if !errors.Is(err, ErrNoDaemon) {
		return e, err
	}
	t, err := viewTable(r, table, a.Is6())
	if err != nil {
		return e, err
	}
	return t.Explain(a), nil
}

func viewTable(r *datapath.Routes, table int, six bool) (*fib.Table, error) {
	words, view := r.Words4, fib.View4
	if six {
		words, view = r.Words6, fib.View6
	}
	w, err := words(table)
	if err != nil {
		return nil, err
	}
	if w == nil {
		return nil, ErrNotRouting
	}
	return view(w)
}

// AskFIB gives the statistics: the daemon's, or those of the pinned tables.
func AskFIB(ctx context.Context, socket string, r *datapath.Routes) (FIB, error) {
	var f FIB
	err := AskPath(ctx, socket, "/v1/fib", &f)
	if !errors.Is(err, ErrNoDaemon) {
		return f, err
	}
	for _, number := range r.Tables() {
		for _, six := range []bool{false, true} {
			t, err := viewTable(r, number, six)
			if err != nil {
				return f, err
			}
			s := t.Stats()
			f.Tables = append(f.Tables, FIBTable{Number: number, Stats: s, Bytes: s.Bytes()})
		}
	}
	if len(f.Tables) == 0 {
		return f, ErrNotRouting
	}
	return f, nil
}

// Answer puts together what weft and the kernel have for an address.
// neighbours are the kernel's, to tell whether both mean the same way.
func Answer(r *datapath.Routes, table int, a netip.Addr, e fib.Explanation, k *state.KernelRoute, neighbours []state.KernelNeighbour) (RouteAnswer, error) {
	out := RouteAnswer{Address: a.String(), Table: table, Steps: steps(e)}
	if e.Value != 0 {
		hop, err := nexthopOf(r, e.Value)
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
			out.Kernel.Hops = append(out.Kernel.Hops, hopWords(h))
		}
	}
	out.Agree, out.Verdict = agree(out.Nexthop, a, k, neighbours)
	return out, nil
}

func hopWords(h state.KernelHop) string {
	words := "dev " + datapath.DeviceName(h.Device)
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

// nexthopOf reads a next hop with all that it leads to.
func nexthopOf(r *datapath.Routes, number uint32) (Nexthop, error) {
	h := r.Nexthop(number)
	out := Nexthop{Number: number, Kind: h.Kind.String()}
	switch h.Kind {
	case state.NexthopNeighbour:
		e, err := r.NeighbourAt(h.Index)
		if err != nil {
			return out, err
		}
		out.entry, out.Device, out.Tags, out.MTU = e, datapath.DeviceName(int(e.IfIndex)), e.Tags.String(), e.MTU
		out.MAC = state.MACString(e.Dst)
	case state.NexthopGroup:
		members, err := r.GroupAt(h.Index)
		if err != nil {
			return out, err
		}
		place := map[uint32]int{}
		for _, n := range members {
			if i, seen := place[n]; seen {
				out.Members[i].Weight++
				continue
			}
			m, err := nexthopOf(r, n)
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

// agree tells whether a packet takes the way that the kernel has for it.
func agree(hop *Nexthop, a netip.Addr, k *state.KernelRoute, neighbours []state.KernelNeighbour) (bool, string) {
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

func sameNeighbours(hop *Nexthop, a netip.Addr, k *state.KernelRoute, neighbours []state.KernelNeighbour) bool {
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
		ways = []Nexthop{*hop}
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

// Neighbour is a row of `weft show neighbours`.
type Neighbour struct {
	Address string `json:"address"`
	Device  string `json:"device"`
	MAC     string `json:"mac"`
	State   string `json:"state"` // the kernel's
	Fast    bool   `json:"fast"`  // weft sends to it past the stack
	Out     string `json:"out,omitempty"`
	Tags    string `json:"tags,omitempty"`
	MTU     uint32 `json:"mtu,omitempty"`
}

// Neighbours gives the rows of `weft show neighbours`: the kernel's, and which
// of them weft sends to itself.
func Neighbours(r *datapath.Routes, links []state.LinkFact, neighbours []state.KernelNeighbour) ([]Neighbour, error) {
	entries, err := r.Entries()
	if err != nil {
		return nil, err
	}
	var rows []Neighbour
	for _, n := range neighbours {
		row := Neighbour{Address: n.Addr.String(), Device: datapath.DeviceName(n.Device), State: n.State.String()}
		own, lowest, tags := below(links, n.Device)
		if n.State.Usable() && n.MAC != [6]byte{} {
			row.MAC = state.MACString(n.MAC)
		}
		for _, e := range entries {
			if row.MAC != "" && e.Dst == n.MAC && e.Src == own.MAC && e.Tags == tags &&
				(int(e.IfIndex) == lowest.Index || lowest.Kind == "bridge") {
				row.Fast, row.Out, row.Tags, row.MTU = true, datapath.DeviceName(int(e.IfIndex)), e.Tags.String(), e.MTU
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// below gives a device, the one under all its VLANs, which sends (or a port of
// it, if it is a bridge), and the tags that frames carry there, outermost first.
func below(links []state.LinkFact, index int) (own, lowest state.LinkFact, tags state.VLANTags) {
	facts := state.Facts{Links: links}
	at := slices.IndexFunc(links, func(l state.LinkFact) bool { return l.Index == index })
	if at < 0 {
		return own, lowest, tags
	}
	own, lowest = links[at], links[at]
	for range tags {
		lower, ok := facts.Link(lowest.Lower)
		if lowest.Lower == "" || !ok {
			break
		}
		tags[1], tags[0] = tags[0], lowest.Tag
		lowest = lower
	}
	return own, lowest, tags
}

// serveRoutes answers for the mirror.
func serveRoutes(mux *http.ServeMux, source RouteSource) {
	mux.HandleFunc("GET /v1/route", func(w http.ResponseWriter, q *http.Request) {
		a, err := netip.ParseAddr(q.URL.Query().Get("address"))
		table, tableErr := strconv.Atoi(q.URL.Query().Get("table"))
		if err := errors.Join(err, tableErr); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		reply(w, q, func(ctx context.Context) (any, error) { return source.Explain(ctx, table, a) })
	})
	mux.HandleFunc("GET /v1/fib", func(w http.ResponseWriter, q *http.Request) {
		reply(w, q, func(ctx context.Context) (any, error) { return source.FIB(ctx) })
	})
}

func reply(w http.ResponseWriter, q *http.Request, get func(context.Context) (any, error)) {
	value, err := get(q.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	// the caller may have gone; nobody is left to tell
	_ = json.NewEncoder(w).Encode(value)
}
