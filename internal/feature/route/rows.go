package route

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/netip"
	"slices"
	"strings"
	"time"

	"weft/fib"
	"weft/internal/noun"
	"weft/internal/state"
)

// Nouns are what the mirror of the routes has to show.
func Nouns() []noun.Noun {
	return []noun.Noun{showRoute(), showFIB(), showNeighbours(), routeLookup(), routeTables(), routeMirror()}
}

// View is the generation of tables that packets are routed by, to look at.
type View interface {
	Words4(table int) ([]uint32, error) // nil if there is no such table
	Words6(table int) ([]uint32, error)
	Tables() []int
	Nexthop(number uint32) state.Nexthop
	NeighbourAt(index uint32) (state.NeighbourEntry, error)
	GroupAt(index uint32) ([]uint32, error)
	Entries() ([]state.NeighbourEntry, error)
	Close() error
}

// Matcher is the kernel's own lookup.
type Matcher interface {
	Match(ctx context.Context, a netip.Addr) (state.KernelRoute, bool, error)
	Close() error
}

// Source is where the rows come from: weft's tables, and the kernel's.
type Source interface {
	View() (View, error)
	Matcher() (Matcher, error)
	Prefixes(ctx context.Context) ([]netip.Prefix, error)
	Neighbours(ctx context.Context) ([]state.KernelNeighbour, error)
	Links() ([]state.LinkFact, error)
	DeviceName(index int) string
}

// MirrorSource is the daemon's mirror of the routes. An error says that there is none.
type MirrorSource interface {
	Explain(ctx context.Context, table int, a netip.Addr) (fib.Explanation, error)
	FIB(ctx context.Context) (FIB, error)
	Mirror(ctx context.Context) (Mirror, error)
}

// ErrNotRouting says that weft has no route tables.
var ErrNotRouting = errors.New("weft has no route tables here: weft.toml has no [route], or they are not filled yet")

// looked is what is looked at for one answer.
type looked struct {
	View
	source Source
}

// look opens the tables; close them afterwards.
func look(s Source) (looked, error) {
	v, err := s.View()
	return looked{v, s}, err
}

func (l looked) table(number int, six bool) (*fib.Table, error) {
	words, view := l.Words4, fib.View4
	if six {
		words, view = l.Words6, fib.View6
	}
	w, err := words(number)
	if err != nil {
		return nil, err
	}
	if w == nil {
		return nil, ErrNotRouting
	}
	return view(w)
}

// Mirror is how the mirror of the routes is doing.
type Mirror struct {
	Status *Status       `json:"status"`    // nil if it was too busy to tell
	Dumps  uint64        `json:"dumps"`     // of all routes: at the start, and whenever news may lack
	Behind time.Duration `json:"behind_ns"` // how long news of the kernel have been waiting by now
}

func routeMirror() noun.Noun {
	status := func(of func(s *Status, put func(float64, ...string))) func(Mirror, func(float64, ...string)) {
		return func(m Mirror, put func(float64, ...string)) {
			if m.Status != nil {
				of(m.Status, put)
			}
		}
	}
	return noun.Of[MirrorSource, Mirror]{
		Name: "route-mirror", Hidden: true, From: noun.Daemon, One: true, Short: "How the mirror of the routes is doing",
		Rows: func(ctx context.Context, m MirrorSource, _ *noun.Query) iter.Seq2[Mirror, error] {
			return noun.Row(m.Mirror(ctx))
		},
		Metrics: []noun.Metric[Mirror]{
			noun.NewGauge("weft_route_prefixes", "Prefixes that weft's route tables mirror.", []string{"family"}, status(func(s *Status, put func(float64, ...string)) {
				put(float64(s.Prefixes4), "ipv4")
				put(float64(s.Prefixes6), "ipv6")
			})),
			noun.NewGauge("weft_route_left_to_the_kernel", "Routes that are left to the kernel, by the reason.", []string{"family", "why"}, status(func(s *Status, put func(float64, ...string)) {
				for _, l := range s.Stack {
					put(float64(l.Routes), strings.ToLower(l.Family), l.Why)
				}
			})),
			noun.NewGauge("weft_route_nexthops", "Next hops that routes share.", nil, status(func(s *Status, put func(float64, ...string)) { put(float64(s.Nexthops)) })),
			noun.NewGauge("weft_route_neighbours", "Neighbours on connected subnets with an entry of their own.", nil, status(func(s *Status, put func(float64, ...string)) { put(float64(s.Hosts)) })),
			noun.NewGauge("weft_route_suspended", "Whether the whole family is left to the kernel.", []string{"family"}, status(func(s *Status, put func(float64, ...string)) {
				put(noun.Truth(s.Suspended[0] != ""), "ipv4")
				put(noun.Truth(s.Suspended[1] != ""), "ipv6")
			})),
			noun.NewCounter("weft_route_changes_total", "Route changes of the kernel.", nil, status(func(s *Status, put func(float64, ...string)) { put(float64(s.Changes)) })),
			noun.NewCounter("weft_route_dumps_total", "Full dumps of the kernel's routes: at the start, and after events may have been lost.", nil,
				func(m Mirror, put func(float64, ...string)) { put(float64(m.Dumps)) }),
			noun.NewGauge("weft_route_lag_seconds", "Age of the oldest event of the kernel that is not mirrored yet.", nil,
				func(m Mirror, put func(float64, ...string)) { put(m.Behind.Seconds()) }),
		},
	}.Noun()
}

// FIB is what weft show fib shows.
type FIB struct {
	Tables []FIBTable `json:"tables"`
	Mirror *Status    `json:"mirror,omitempty"` // nil while the daemon is down
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

// routeTables is what the daemon knows for weft show fib.
func routeTables() noun.Noun {
	return noun.Of[MirrorSource, FIB]{
		Name: "route-tables", Hidden: true, From: noun.Daemon, One: true, Short: "The route tables of the mirror",
		Rows: func(ctx context.Context, m MirrorSource, _ *noun.Query) iter.Seq2[FIB, error] {
			return noun.Row(m.FIB(ctx))
		},
	}.Noun()
}

func showFIB() noun.Noun {
	return noun.Of[Source, FIB]{
		Name: "fib", Short: "The route tables: what they hold and what they are made of", From: noun.Both, One: true,
		Long: `For each of weft's own tables (see [route]) its structure in the manner of
/proc/net/fib_triestat, and for the mirror of the kernel's routes what it holds,
what it leaves to the kernel, and why. The statistics walk the whole table:
with a full Internet table that takes a moment, in which no route changes.`,
		Variants: []noun.Noun{comparison()},
		Rows: func(ctx context.Context, s Source, q *noun.Query) iter.Seq2[FIB, error] {
			return noun.Row(fibRow(ctx, s, q))
		},
		Page: fibPage,
	}.Noun()
}

// fibRow returns the daemon's statistics, or those of the pinned tables.
func fibRow(ctx context.Context, s Source, q *noun.Query) (f FIB, err error) {
	l, err := look(s)
	if err != nil {
		return f, err
	}
	defer l.Close()
	if err := q.Ask(ctx, "route-tables", nil, &f); !errors.Is(err, noun.ErrNoDaemon) {
		return f, err
	}
	for _, number := range l.Tables() {
		for _, six := range []bool{false, true} {
			t, err := l.table(number, six)
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

func fibPage(w io.Writer, rows []FIB) {
	for _, f := range rows {
		if f.Mirror == nil {
			fmt.Fprintln(w, "the daemon is down: the tables are as it left them")
		} else {
			m := f.Mirror
			fmt.Fprintf(w, "mirrored\t%d IPv4 and %d IPv6 prefixes, %d next hops, %d neighbours with entries of their own, %d changes so far\n",
				m.Prefixes4, m.Prefixes6, m.Nexthops, m.Hosts, m.Changes)
			for _, s := range m.Stack {
				fmt.Fprintf(w, "left to the kernel\t%d %s routes %s\n", s.Routes, s.Family, s.Why)
			}
		}
		for _, family := range []string{"IPv4", "IPv6"} {
			if why := f.Suspended[family]; why != "" {
				fmt.Fprintf(w, "left to the kernel\tall of %s: %s\n", family, why)
			}
		}
		for _, t := range f.Tables {
			fmt.Fprintf(w, "\ntable %d ", t.Number)
			fmt.Fprint(w, t.Stats.String())
		}
	}
}

// NeighbourRow is a row of weft show neighbours.
type NeighbourRow struct {
	Address string `json:"address"`
	Device  string `json:"device"`
	MAC     string `json:"mac"`
	State   string `json:"state"` // the kernel's
	Fast    bool   `json:"fast"`  // weft sends to it past the stack
	Out     string `json:"out,omitempty"`
	Tags    string `json:"tags,omitempty"`
	MTU     uint32 `json:"mtu,omitempty"`
}

func showNeighbours() noun.Noun {
	return noun.Of[Source, NeighbourRow]{
		Name: "neighbours", Short: "The neighbours, and which of them weft sends to itself",
		Long: `The kernel's neighbours with their link addresses. FAST says that weft sends
to this one past the stack, OUT by which device (below a VLAN interface, the
port of a bridge). The others are reached through the kernel.`,
		Rows: func(ctx context.Context, s Source, _ *noun.Query) iter.Seq2[NeighbourRow, error] {
			return noun.List(neighbourRows(ctx, s))
		},
		Columns: []noun.Column[NeighbourRow]{
			{Name: "ADDRESS", Text: func(n NeighbourRow) string { return n.Address }},
			{Name: "DEVICE", Text: func(n NeighbourRow) string { return n.Device }},
			{Name: "MAC", Text: func(n NeighbourRow) string { return noun.Dash(n.MAC) }},
			{Name: "STATE", Text: func(n NeighbourRow) string { return n.State }},
			{Name: "FAST", Text: func(n NeighbourRow) string { return noun.YesNo(n.Fast) }},
			{Name: "OUT", Text: func(n NeighbourRow) string { return noun.Dash(n.Out) }},
			{Name: "TAGS", Text: func(n NeighbourRow) string { return noun.Dash(n.Tags) }, Wide: true},
		},
	}.Noun()
}

// neighbourRows returns the kernel's neighbours, and which of them weft sends to itself.
func neighbourRows(ctx context.Context, s Source) ([]NeighbourRow, error) {
	l, err := look(s)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	links, err := s.Links()
	if err != nil {
		return nil, err
	}
	neighbours, err := s.Neighbours(ctx)
	if err != nil {
		return nil, err
	}
	entries, err := l.Entries()
	if err != nil {
		return nil, err
	}
	var rows []NeighbourRow
	for _, n := range neighbours {
		row := NeighbourRow{Address: n.Addr.String(), Device: s.DeviceName(n.Device), State: n.State.String()}
		own, lowest, tags := below(links, n.Device)
		if n.State.Usable() && n.MAC != [6]byte{} {
			row.MAC = state.MACString(n.MAC)
		}
		for _, e := range entries {
			if row.MAC != "" && e.Dst == n.MAC && e.Src == own.MAC && e.Tags == tags &&
				(int(e.IfIndex) == lowest.Index || lowest.Kind == "bridge") {
				row.Fast, row.Out, row.Tags, row.MTU = true, s.DeviceName(int(e.IfIndex)), e.Tags.String(), e.MTU
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// below returns a device, the one under all its VLANs, which sends (or a port of
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
