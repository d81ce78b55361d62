package guard

import (
	"context"
	"fmt"
	"iter"
	"net/netip"
	"strings"
	"time"

	"weft/internal/noun"
	"weft/internal/state"
)

// Nouns are what guards have to show.
func Nouns() []noun.Noun {
	return []noun.Noun{guards(), blocked(), blockList()}
}

// Source is where the rows of guards come from.
type Source interface {
	Guards() ([]state.Guard, error)
}

// Row is a row of weft show guards: one guarded interface.
type Row struct {
	Device      string         `json:"device"`
	Hook        string         `json:"hook"` // xdp or tc
	ReversePath string         `json:"reverse_path"`
	Bogons      bool           `json:"bogons"`
	PerSecond   map[string]int `json:"per_second"` // by what is limited
}

func guards() noun.Noun {
	return noun.Of[Source, Row]{
		Name: "guards", Short: "The interfaces that are guarded, and by what",
		Long: `For each interface that a [guard.NAME] names: where the guard looks, whether it
asks for the way back to sources, whether bogons are dropped, and how much a
second is let in. What was dropped is in weft show drops.`,
		Rows: func(_ context.Context, t Source, _ *noun.Query) iter.Seq2[Row, error] { return noun.List(rows(t)) },
		Columns: []noun.Column[Row]{
			{Name: "INTERFACE", Text: func(r Row) string { return r.Device }},
			{Name: "HOOK", Text: func(r Row) string { return r.Hook }},
			{Name: "REVERSE PATH", Text: func(r Row) string { return r.ReversePath }},
			{Name: "BOGONS", Text: func(r Row) string {
				if r.Bogons {
					return "dropped"
				}
				return "let in"
			}},
			{Name: "LET IN A SECOND", Text: ratesText},
		},
	}.Noun()
}

// rateNames names the rates of a guard, in their order.
func rateNames() [state.GuardRates]string {
	return [...]string{"syn_per_source", "syn_total", "icmp_per_source", "icmp_total"}
}

func rows(t Source) (list []Row, err error) {
	guards, err := t.Guards()
	for _, g := range guards {
		row := Row{Device: g.Device, Hook: "tc", ReversePath: g.Reverse.String(), Bogons: g.Bogons, PerSecond: map[string]int{}}
		if g.XDP {
			row.Hook = "xdp"
		}
		for i, name := range rateNames() {
			if n := g.Rates[i].PerSecond; n > 0 {
				row.PerSecond[name] = n
			}
		}
		list = append(list, row)
	}
	return list, err
}

func ratesText(r Row) string {
	var list []string
	for _, name := range rateNames() {
		if n := r.PerSecond[name]; n > 0 {
			list = append(list, fmt.Sprintf("%s %d", name, n))
		}
	}
	return noun.Dash(strings.Join(list, ", "))
}

// BlockedSource is where the rows of weft show blocked come from.
type BlockedSource interface {
	Blocked() ([]Blocked, error)
}

func blocked() noun.Noun {
	return noun.Of[BlockedSource, Blocked]{
		Name: "blocked", Short: "The sources that weft block has blocked",
		Long: `The sources that were blocked while the router runs, until when, and why. Those
of [block] in weft.toml are in the file.`,
		Rows: func(_ context.Context, s BlockedSource, _ *noun.Query) iter.Seq2[Blocked, error] {
			return noun.List(s.Blocked())
		},
		Columns: []noun.Column[Blocked]{
			{Name: "SOURCE", Text: func(b Blocked) string { return SourceText(b.Prefix) }},
			{Name: "UNTIL", Text: func(b Blocked) string {
				if b.Until.IsZero() {
					return "unblocked"
				}
				return b.Until.Local().Format(time.DateTime)
			}},
			{Name: "REASON", Text: func(b Blocked) string { return noun.Dash(b.Reason) }},
		},
	}.Noun()
}

// SourceText is an address, or a prefix of several.
func SourceText(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

// BlockListNoun is its name.
const BlockListNoun = "block-list"

// BlockList is the list in force, of [block], its files and sets, and weft block.
type BlockList struct {
	Entries  int       `json:"entries"`  // prefixes, exceptions and bogons among them
	Commands time.Time `json:"commands"` // when the blocks of weft block in it were stored; zero: there are none
}

// BlockListSource is the runner.
type BlockListSource interface {
	BlockList(ctx context.Context) []BlockList
}

func blockList() noun.Noun {
	return noun.Of[BlockListSource, BlockList]{
		Name: BlockListNoun, Short: "How many prefixes the block list in force has", From: noun.Daemon,
		Long: `The size of the list of all guarded interfaces as it is in force: [block], its
files and sets, the bogons, and weft block. Without a [guard.NAME] there is no
list. The daemon has it, so weft run must be running.`,
		Rows: func(ctx context.Context, s BlockListSource, _ *noun.Query) iter.Seq2[BlockList, error] {
			return noun.List(s.BlockList(ctx), nil)
		},
		Columns: []noun.Column[BlockList]{
			{Name: "PREFIXES", Text: func(l BlockList) string { return fmt.Sprint(l.Entries) }},
			{Name: "BLOCKS STORED", Text: func(l BlockList) string {
				if l.Commands.IsZero() {
					return "none"
				}
				return noun.Age(l.Commands) + " ago"
			}},
		},
		Metrics: []noun.Metric[BlockList]{
			noun.NewGauge("weft_block_list_entries", "Prefixes of the block list in force, exceptions and bogons among them.", nil, func(l BlockList, put func(float64, ...string)) {
				put(float64(l.Entries))
			}),
		},
	}.Noun()
}
