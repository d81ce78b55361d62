package host

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"weft/internal/noun"
	"weft/internal/state"
)

// Nouns are what the router itself has to show.
func Nouns() []noun.Noun {
	return []noun.Noun{status(), health(), interfaces(), counters(), drops()}
}

// InterfaceSource is where the rows of weft show interfaces come from.
type InterfaceSource interface {
	Attachments() ([]state.Attachment, error)
	Ports() ([]state.IngressEntry, error)
	Translators() ([]state.Translator, error)
	Links() ([]state.LinkFact, error)
}

// Interface is a row of weft show interfaces: a device with programs of weft's on it.
type Interface struct {
	Device      string   `json:"device"`
	Index       int      `json:"index"`
	Kind        string   `json:"kind"`
	Up          bool     `json:"up"`
	MTU         int      `json:"mtu"`
	MAC         string   `json:"mac"`
	Addresses   []string `json:"addresses"`
	Programs    []string `json:"programs"` // hook:program
	Bypass      bool     `json:"bypass"`
	Translators []string `json:"translators"`
}

func interfaces() noun.Noun {
	return noun.Of[InterfaceSource, Interface]{
		Name: "interfaces", Short: "The devices that carry programs of weft's",
		Long: `Each device of an [interface.NAME], and each translator's own, with the
programs on it. SHORTCUT says whether translated packets may leave past the
stack and its firewall.`,
		Rows: func(_ context.Context, t InterfaceSource, _ *noun.Query) iter.Seq2[Interface, error] {
			return noun.List(interfaceRows(t))
		},
		Columns: []noun.Column[Interface]{
			{Name: "DEVICE", Text: func(i Interface) string { return i.Device }},
			{Name: "KIND", Text: func(i Interface) string { return i.Kind }},
			{Name: "STATE", Text: func(i Interface) string {
				if i.Up {
					return "up"
				}
				return "down"
			}},
			{Name: "MTU", Text: func(i Interface) string { return strconv.Itoa(i.MTU) }},
			{Name: "PROGRAMS", Text: func(i Interface) string { return strings.Join(i.Programs, " ") }},
			{Name: "BYPASS", Text: func(i Interface) string { return noun.YesNo(i.Bypass) }},
			{Name: "TRANSLATORS", Text: func(i Interface) string { return noun.Dash(strings.Join(i.Translators, " ")) }, Wide: true},
			{Name: "ADDRESSES", Text: func(i Interface) string { return noun.Dash(strings.Join(i.Addresses, " ")) }, Wide: true},
		},
	}.Noun()
}

func interfaceRows(t InterfaceSource) ([]Interface, error) {
	links, err := t.Links()
	if err != nil {
		return nil, err
	}
	attachments, err := t.Attachments()
	if err != nil {
		return nil, err
	}
	ports, err := t.Ports()
	if err != nil {
		return nil, err
	}
	translators, err := t.Translators()
	if err != nil {
		return nil, err
	}
	var rows []Interface
	for _, l := range links {
		row := Interface{Device: l.Name, Index: l.Index, Kind: cmp.Or(l.Kind, "physical"), Up: l.Up, MTU: l.MTU, MAC: state.MACString(l.MAC)}
		for _, a := range attachments {
			if a.Device == l.Name {
				row.Programs = append(row.Programs, fmt.Sprintf("%s:%s", a.Hook, a.Program))
			}
		}
		if len(row.Programs) == 0 {
			continue
		}
		slices.Sort(row.Programs)
		for _, a := range l.Addresses {
			row.Addresses = append(row.Addresses, a.String())
		}
		for _, p := range ports {
			if p.Device == l.Name {
				row.Bypass = p.Roles.Has(state.RoleBypass)
				row.Translators = served(p, translators)
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func served(p state.IngressEntry, translators []state.Translator) []string {
	var names []string
	for _, t := range translators {
		if p.Translators>>t.ID&1 == 1 {
			names = append(names, t.Name)
		}
	}
	return names
}

// Counter is a row of weft show counters: how many packets met an outcome in a program, or in the
// slow path of a translator.
type Counter struct {
	Program string `json:"program"`
	Outcome string `json:"outcome"`
	Verdict string `json:"verdict"`
	Packets uint64 `json:"packets"`
	Meaning string `json:"meaning"`
}

// NewCounter is a row for an outcome.
func NewCounter(program string, o state.Outcome, packets uint64) Counter {
	return Counter{program, o.String(), string(o.Verdict()), packets, o.Words()}
}

// CounterSource is where the counts of the programs come from.
type CounterSource interface {
	Counters() ([]Counter, error)
}

func counters() noun.Noun {
	n := counterNoun()
	n.Name, n.Short = "counters", "Packets by program and outcome"
	n.Long = `How many packets each program handled, by outcome; outcomes with a count of 0
are left out. The first word of an outcome is the verdict:

  forward  weft forwarded or answered the packet
  slow     weft gave the packet to the slow path; the rows slow_path/NAME have
           its decision
  pass     weft left the packet to the kernel, unchanged
  drop     weft dropped the packet; the name has the reason

A packet may be counted by several programs on its way.`
	n.Rows = func(ctx context.Context, t CounterSource, q *noun.Query) iter.Seq2[Counter, error] {
		return noun.List(counterRows(ctx, t, q))
	}
	n.Metrics = []noun.Metric[Counter]{
		noun.NewCounter("weft_packets_total", "Packets by the program that decided on them and what it decided.",
			[]string{"program", "verdict", "outcome"}, func(c Counter, put func(float64, ...string)) {
				put(float64(c.Packets), c.Program, c.Verdict, c.Outcome)
			}),
	}
	return n.Noun()
}

func drops() noun.Noun {
	n := counterNoun()
	n.Name, n.Short = "drops", "The packets that were dropped, and why"
	n.Long = `The rows of weft show counters that are drops. What the kernel itself drops
(no route, the firewall) is not weft's to count: see nstat and nft list ruleset.`
	n.Rows = func(ctx context.Context, t CounterSource, q *noun.Query) iter.Seq2[Counter, error] {
		list, err := counterRows(ctx, t, q)
		return noun.List(slices.DeleteFunc(list, func(c Counter) bool { return c.Verdict != string(state.Drop) }), err)
	}
	return n.Noun()
}

func counterNoun() noun.Of[CounterSource, Counter] {
	return noun.Of[CounterSource, Counter]{
		From: noun.Both,
		Columns: []noun.Column[Counter]{
			{Name: "PROGRAM", Text: func(c Counter) string { return c.Program }},
			{Name: "OUTCOME", Text: func(c Counter) string { return c.Outcome }},
			{Name: "PACKETS", Text: func(c Counter) string { return fmt.Sprint(c.Packets) }},
			{Name: "MEANING", Text: func(c Counter) string { return c.Meaning }},
		},
	}
}

// SlowPath is the noun of what slow paths made of packets. Its rows have a name, an outcome and
// a number of packets.
const SlowPath = "slow-path"

// counterRows adds what the slow paths made of packets, if the daemon runs.
func counterRows(ctx context.Context, t CounterSource, q *noun.Query) ([]Counter, error) {
	rows, err := t.Counters()
	if err != nil {
		return nil, err
	}
	var slow []Counter
	if err := q.AskIfThere(ctx, SlowPath, nil, &slow); err != nil {
		return nil, err
	}
	return append(rows, slow...), nil
}
